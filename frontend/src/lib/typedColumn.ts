interface Packed {
  dtype: string;
  bdata: string;
  shape?: string;
}

const ARRAYS = {
  i1: Int8Array,
  u1: Uint8Array,
  i2: Int16Array,
  u2: Uint16Array,
  i4: Int32Array,
  u4: Uint32Array,
  f4: Float32Array,
  f8: Float64Array,
} as const;

/** A trace's column: `length` rows, of which `at` reads one entry. */
export interface Column {
  length: number;
  at: (row: number, entry?: number) => number;
}

/** Reads Plotly's typed-array notation, or the list of numbers or rows that it stands for. */
export function column(value: unknown): Column {
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    const rows = value as unknown as ArrayLike<number | ArrayLike<number>>;
    return {
      length: rows.length,
      at: (row, entry = 0) => {
        const found = rows[row];
        return Number(typeof found === "object" ? found[entry] : found);
      },
    };
  }
  const { dtype, bdata, shape } = value as Packed;
  const bytes = Uint8Array.from(atob(bdata), (char) => char.charCodeAt(0));
  const numbers = new ARRAYS[dtype as keyof typeof ARRAYS](bytes.buffer);
  const wide = shape === undefined ? 1 : Number(shape.split(",")[1] ?? 1);
  return { length: numbers.length / wide, at: (row, entry = 0) => Number(numbers[row * wide + entry]) };
}
