import {
  Anchor,
  type AnchorProps,
  Badge,
  type BadgeProps,
  Button,
  type ButtonProps,
  Card,
  type CardProps,
} from "@mantine/core";

import { createLink } from "@tanstack/react-router";
import type { AnchorHTMLAttributes, ReactNode } from "react";

type Native = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "color" | "style" | "size">;
type Named = { children?: ReactNode; "data-testid"?: string };

/** Mantine's button, badge, text link and card as links of the router: checked addresses, no reload. */
export const LinkButton = createLink((props: ButtonProps & Native & Named) => (
  <Button component="a" {...props} />
));
export const LinkAnchor = createLink((props: AnchorProps & Native & Named) => <Anchor {...props} />);
export const LinkBadge = createLink((props: BadgeProps & Native & Named) => (
  <Badge component="a" {...props} style={{ cursor: "pointer" }} />
));
export const LinkCard = createLink((props: CardProps & Native & Named) => <Card component="a" {...props} />);
