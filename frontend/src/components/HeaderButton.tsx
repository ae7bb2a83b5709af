import { ActionIcon, type ActionIconProps, type ElementProps } from "@mantine/core";
import { Tip } from "./Tip";

interface Props extends ActionIconProps, ElementProps<"button", keyof ActionIconProps> {
  /** What it does, for everybody. */
  label: string;
}

/** One of the icons at the header's end. */
export function HeaderButton({ label, ...others }: Props) {
  return (
    <Tip label={label}>
      <ActionIcon variant="default" size="lg" aria-label={label} {...others} />
    </Tip>
  );
}
