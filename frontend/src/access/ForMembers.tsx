import type { ReactNode } from "react";
import { may } from "../lib/rights";
import { useWho } from "./useWho";

/** What launches something, for who may: the service would refuse viewers. `otherwise` is what they see in its place. */
export function ForMembers({ children, otherwise }: { children: ReactNode; otherwise?: ReactNode }) {
  return may(useWho().role, "member") ? children : otherwise;
}
