import type { components } from "./schema";

type Schemas = components["schemas"];

export type Job = Schemas["Job"];
export type JobSummary = Schemas["JobSummary"];
export type JobSpec = Schemas["JobSpec"];
export type JobState = JobSummary["state"];
export type PlanView = Schemas["PlanView"];
export type LayerPlan = Schemas["LayerPlan"];
export type Override = Partial<Schemas["Override"]>;
export type AxisEntry = Schemas["AxisEntry"];
export type Race = Schemas["Race"];
export type RaceSummary = Schemas["RaceSummary"];
export type RaceSpec = Schemas["RaceSpec"];
export type LargestBatchView = Schemas["LargestBatchView"];
export type MemoryView = Schemas["MemoryView"];
export type JobMemory = Schemas["JobMemory"];
export type PayingView = Schemas["PayingView"];
export type Profile = Schemas["ProfileView"];
export type RaceBest = Schemas["RaceBest"];
export type BestCondition = Schemas["BestCondition"];
export type RaceView = Schemas["RaceView"];
export type Ranking = Schemas["Ranking"];
export type Suggestion = Schemas["Suggestion"];
export type Standing = Schemas["Standing"];
export type SourceEntry = Schemas["SourceEntry"];
export type Template = Schemas["Template"];
export type StrategyEntry = Schemas["StrategyEntry"];
export type Events = Schemas["Events"];
export type Why = Schemas["Why"];
export type LinkStretch = Schemas["LinkStretch"];
export type Staleness = Schemas["Staleness"];
export type FigureEntry = Schemas["FigureEntry"];
export type Device = Schemas["Device"];
export type Queue = Schemas["Queue"];
export type Waiting = Schemas["Waiting"];
export type ClusterNode = Schemas["NodeView"];
export type Maintenance = Schemas["MaintenanceView"];
export type Project = Schemas["ProjectView"];
export type JobGroup = Schemas["JobGroup"];
export type Summary = Schemas["Summary"];

/** A Plotly figure as the backend builds it. */
export interface PlotlyFigure {
  data: unknown[];
  layout: { height?: number; uirevision?: unknown; meta?: Record<string, unknown> } & Record<string, unknown>;
}

export type Theme = "light" | "dark";
export type Token = Schemas["TokenView"];
export type Webhook = Schemas["WebhookView"];
export type Delivery = Schemas["DeliveryView"];
export type NewToken = Schemas["NewToken"];
export type User = Schemas["UserView"];
export type AuditEntry = Schemas["AuditEntryView"];
export type Checkpoints = Schemas["Checkpoints"];
