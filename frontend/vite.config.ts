import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The service answers the API and serves the built page; in development the page is Vite's and asks it.
const service = process.env.TRAINYARD_URL ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [react()],
  server: { proxy: { "/api": service } },
  preview: { proxy: { "/api": service } },
  // plotly.js is one bundle of 1.5 MB, loaded apart from the page.
  build: { chunkSizeWarningLimit: 1600 },
  test: { include: ["src/**/*.test.ts"] },
});
