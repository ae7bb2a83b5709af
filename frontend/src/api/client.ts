import createClient from "openapi-fetch";
import type { paths } from "./schema";

/** One refused field of a request, as the service reports it. */
export interface FieldProblem {
  field: string;
  value?: unknown;
  rule: string;
  remedy?: string;
}

/** A problem document (RFC 9457) of the service, or the network's failure to reach it (status 0). */
export class ApiProblem extends Error {
  readonly status: number;
  readonly title: string;
  readonly errors: FieldProblem[];

  constructor(status: number, title: string, detail: string, errors: FieldProblem[] = []) {
    super(detail || title);
    this.status = status;
    this.title = title;
    this.errors = errors;
  }
}

/** What the service sent with an error status, as an ApiProblem, whatever its form. */
export function problemFrom(status: number, body: unknown): ApiProblem {
  const fields = typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
  const title = typeof fields.title === "string" ? fields.title : `The service answered ${status}`;
  const detail = typeof fields.detail === "string" ? fields.detail : "";
  const errors = Array.isArray(fields.errors) ? (fields.errors as FieldProblem[]) : [];
  return new ApiProblem(status, title, detail, errors);
}

export const client = createClient<paths>({
  baseUrl: window.location.origin,
  // The service asks for it on every write, also on those without a body: other sites cannot send it unasked.
  headers: { "Content-Type": "application/json" },
});

let refused = () => {};

/** Calls `act` when the service answers that this browser is not signed in, or may not do what was asked: its user may
 * have another role by now. Returns what ends it. */
export function whenRefused(act: () => void): () => void {
  refused = act;
  return () => {
    refused = () => {};
  };
}

interface Answer {
  error?: unknown;
  response: Response;
}

/** An openapi-fetch answer that is no error; throws ApiProblem. */
export async function answered<A extends Answer>(call: Promise<A>): Promise<A> {
  const answer = await call.catch((cause: unknown) => {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ApiProblem(0, "The service cannot be reached", "Is `trainyard serve` running?");
  });
  if (answer.response.status === 401 || answer.response.status === 403) refused();
  if (!answer.response.ok) throw problemFrom(answer.response.status, answer.error);
  return answer;
}

/** The data of an openapi-fetch answer; throws ApiProblem where there is none. */
export async function unwrap<T>(call: Promise<Answer & { data?: T }>): Promise<NonNullable<T>> {
  const { data, error, response } = await answered(call);
  if (data === undefined || data === null) throw problemFrom(response.status, error);
  return data;
}
