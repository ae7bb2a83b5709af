import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Rolldown } from "vite";
import { defineConfig } from "vitest/config";

// The service answers the API and serves the built page; in development the page is Vite's and asks it.
const service = process.env.TRAINYARD_URL ?? "http://127.0.0.1:8000";

// Chromium compiles what a file holds while it comes, beside the page's thread, and not function by function on it. It reads
// this in a file's first line only, above which Vite puts a line of its own where a file loads others: so it comes last.
const compiled = {
  name: "compiled",
  generateBundle: {
    order: "post" as const,
    handler(_: unknown, bundle: Rolldown.OutputBundle) {
      for (const file of Object.values(bundle))
        if (file.type === "chunk") file.code = `//# allFunctionsCalledOnLoad\n${file.code}`;
    },
  },
};

/** What the service sends as it is, so that it need not compress two megabytes for each browser. */
const compressed = {
  name: "compressed",
  writeBundle({ dir }: { dir?: string }) {
    const folder = join(dir ?? "dist", "assets");
    for (const name of readdirSync(folder).filter((name) => /\.(js|css)$/.test(name)))
      writeFileSync(join(folder, `${name}.gz`), gzipSync(readFileSync(join(folder, name)), { level: 9 }));
  },
};

export default defineConfig({
  plugins: [react(), compiled, compressed],
  server: { proxy: { "/api": service } },
  preview: { proxy: { "/api": service } },
  // plotly.js is one bundle of 1.5 MB, loaded apart from the page.
  build: {
    chunkSizeWarningLimit: 1600,
    // What several pages use is one file: dozens of small ones are requests that a page's first sight waits for.
    rolldownOptions: {
      output: {
        codeSplitting: { groups: [{ name: "shared", minShareCount: 2 }] },
      },
    },
  },
  test: { include: ["src/**/*.test.ts"] },
});
