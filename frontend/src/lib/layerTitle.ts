/** A layer's name as requests, addresses and files have it; the root, which has none, is called so. */
export function layerName({ layer }: { layer: string }): string {
  return layer || "(root)";
}

/**
 * What people read as a layer's name where its class does not stand beside it: `4 (Conv2d)` of a bare number, as layers
 * of a Sequential have. The service says the same (`layer_title` in `engine/plan/description.py`).
 */
export function layerTitle({ layer, kind }: { layer: string; kind: string }): string {
  return /^\d+(\.\d+)*$/.test(layer) && kind ? `${layer} (${kind})` : layerName({ layer });
}
