import { Tooltip, type TooltipProps } from "@mantine/core";
import {
  cloneElement,
  type FocusEvent,
  type HTMLAttributes,
  type KeyboardEvent,
  type ReactElement,
  useEffect,
  useState,
} from "react";

interface Props extends TooltipProps {
  children: ReactElement<HTMLAttributes<HTMLElement>>;
}

/** Words about one element, for who points at it or comes to it with the keyboard. Mantine's own tooltip goes away as
 * soon as the pointer leaves, also if only the layout moves under it; this one stays as long as the keyboard is there,
 * or until Escape. */
export function Tip({ children, ...tooltip }: Props) {
  const [focused, setFocused] = useState<Element | null>(null);
  const own = children.props;
  // Where the element goes away under the focus, nothing says so.
  useEffect(() => {
    if (focused && !focused.isConnected) setFocused(null);
  });
  return (
    <Tooltip opened={focused ? true : undefined} {...tooltip}>
      {cloneElement(children, {
        onFocus: (event: FocusEvent<HTMLElement>) => {
          own.onFocus?.(event);
          if (event.target.matches(":focus-visible")) setFocused(event.target);
        },
        onBlur: (event: FocusEvent<HTMLElement>) => {
          own.onBlur?.(event);
          setFocused(null);
        },
        onKeyDown: (event: KeyboardEvent<HTMLElement>) => {
          own.onKeyDown?.(event);
          if (event.key === "Escape") setFocused(null);
        },
      })}
    </Tooltip>
  );
}
