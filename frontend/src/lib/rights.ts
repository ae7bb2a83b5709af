/** As the service has them (backend/access/rights.py): each may what those before it may. */
export const ROLES = ["viewer", "member", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** What each may do. */
export const MEANS: Record<Role, string> = {
  viewer: "looks at everything",
  member: "plans, launches and races, too, and cancels, changes and deletes what they made",
  admin:
    "does so with everybody's, shares devices among projects, takes them out of use, and says who may use the server",
};

/** Whether `role` is `wanted`, or may more. */
export function may(role: Role, wanted: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(wanted);
}

/** The roles that may no more than `role`. */
export function upTo(role: Role): Role[] {
  return ROLES.filter((other) => may(role, other));
}

/** Whether they may end, change and delete what `owner` made: their own, or what nobody made. */
export function mayChange(
  who: { user: string | null; role: Role },
  owner: string | null | undefined,
): boolean {
  return who.role === "admin" || (who.role === "member" && (!owner || owner === who.user));
}
