import type { AuditEntry } from "../api/types";
import type { Cell } from "./csv";

/** What an entry of the audit log is about: `jobs/<id>`, `session`. */
export function targetOf(target: string): { kind: string; id: string | null } {
  const [kind = "", id] = target.split("/", 2);
  return { kind, id: id || null };
}

/** What an entry gave or took, or for which job: `viewer, was member`, `laptop of ada, viewer, until 2026-12-24`,
 * `tags a, b, were a`. */
export function givenBy({ details }: AuditEntry): string {
  if (!details) return "";
  const { role, former_role, user, name, scope, expires_at, for_job } = details;
  if (for_job) return `for jobs/${for_job}`;
  if (!role && !scope) return ofJob(details).join("; ");
  if (!scope) return `${role}${former_role ? `, was ${former_role}` : ""}`;
  return `${name} of ${user}, ${scope}, ${expires_at ? `until ${expires_at.slice(0, 10)}` : "never expires"}`;
}

/** What was done to a job, or to devices. */
function ofJob(details: NonNullable<AuditEntry["details"]>): string[] {
  const { tags, former_tags, note, baseline, former_baseline, attempt, name, host, devices, ends_at } =
    details;
  const listed = (given?: string[] | null) => given?.join(", ") || "none";
  return [
    tags ? `tags ${listed(tags)}, were ${listed(former_tags)}` : "",
    note ? `note ${note}` : "",
    baseline || former_baseline ? `baseline ${baseline ?? "none"}, was ${former_baseline ?? "none"}` : "",
    attempt ? `attempt ${attempt}` : "",
    host ? `${name} to ${host}` : "",
    devices ? `${devices}${ends_at ? `, until ${ends_at.slice(0, 16).replace("T", " ")} UTC` : ""}` : "",
  ].filter(Boolean);
}

/** Entries of the audit log as rows of a file. */
export function auditRows(entries: AuditEntry[]): Cell[][] {
  return [
    ["when", "who", "token", "did", "to", "what", "from", "answer"],
    ...entries.map((entry) => [
      entry.at,
      entry.who,
      entry.token,
      entry.action,
      entry.target,
      givenBy(entry),
      entry.address,
      entry.status,
    ]),
  ];
}
