/** Who is refused for the same reason, in one list; lists stand where their first is. */
export function byReason<T extends { error: Error | null }>(refused: T[]): T[][] {
  const groups = new Map<string, T[]>();
  for (const one of refused) {
    const reason = one.error?.message ?? "";
    groups.set(reason, [...(groups.get(reason) ?? []), one]);
  }
  return [...groups.values()];
}
