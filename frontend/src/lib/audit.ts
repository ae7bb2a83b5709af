import type { AuditEntry } from "../api/types";
import type { Cell } from "./csv";

/** What an entry of the audit log is about: `jobs/<id>`, `session`. */
export function targetOf(target: string): { kind: string; id: string | null } {
  const [kind = "", id] = target.split("/", 2);
  return { kind, id: id || null };
}

/** Entries of the audit log as rows of a file. */
export function auditRows(entries: AuditEntry[]): Cell[][] {
  return [
    ["when", "who", "token", "did", "to", "from", "answer"],
    ...entries.map(({ at, who, token, action, target, address, status }) => [
      at,
      who,
      token,
      action,
      target,
      address,
      status,
    ]),
  ];
}
