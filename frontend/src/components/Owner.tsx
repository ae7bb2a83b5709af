import { LinkAnchor } from "./links";

/** Who made a job or a race, with the way to all their jobs; nothing where nobody was asked who they are. */
export function Owner({ of }: { of: { owner?: string | null } }) {
  if (!of.owner) return null;
  return (
    <LinkAnchor to="/jobs" search={{ owner: of.owner }} size="xs" data-testid="owner">
      by {of.owner}
    </LinkAnchor>
  );
}
