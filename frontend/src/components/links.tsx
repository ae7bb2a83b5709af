import { Anchor, type AnchorProps, Button, type ButtonProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { AnchorHTMLAttributes, ReactNode } from "react";

type Native = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "color" | "style" | "size">;
type Named = { children?: ReactNode; "data-testid"?: string };

/** Mantine's button and text link as links of the router: checked addresses, no reload. */
export const LinkButton = createLink((props: ButtonProps & Native & Named) => (
  <Button component="a" {...props} />
));
export const LinkAnchor = createLink((props: AnchorProps & Native & Named) => <Anchor {...props} />);
