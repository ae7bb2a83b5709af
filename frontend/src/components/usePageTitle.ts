import { useEffect } from "react";

/** The document's title: what a person reads in a row of tabs. */
export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Trainyard`;
  }, [title]);
}
