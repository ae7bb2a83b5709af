import { Select } from "@mantine/core";
import { memo } from "react";

interface Props {
  /** Stable, as is `onLayer`: each layer is an option, and a deep network has a thousand. */
  layers: { value: string; label: string }[];
  layer: number | undefined;
  /** Undefined: none. */
  onLayer: (layer: number | undefined) => void;
  placeholder?: string;
}

/** Chooses a layer by name; drawn again only when another one is chosen, not with every one that is pointed at. */
export const LayerSelect = memo(function LayerSelect({
  layers,
  layer,
  onLayer,
  placeholder = "All layers",
}: Props) {
  return (
    <Select
      size="xs"
      aria-label="Layer"
      placeholder={placeholder}
      data={layers}
      value={layer === undefined ? null : String(layer)}
      clearable
      searchable
      selectFirstOptionOnChange
      data-testid="layer"
      onChange={(value) => onLayer(value === null ? undefined : Number(value))}
    />
  );
});
