import {
  AppShell,
  Container,
  Group,
  Text,
  useComputedColorScheme,
  useMantineColorScheme,
} from "@mantine/core";
import { IconHelp, IconMoon, IconSun } from "@tabler/icons-react";
import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { Insecure } from "../access/Insecure";
import { SignOut } from "../access/SignOut";
import { useWho } from "../access/useWho";
import { may } from "../lib/rights";
import { Connection } from "./Connection";
import { HeaderButton } from "./HeaderButton";
import { useHasHowToRead, useHowToRead } from "./HowToReadThis";

const PAGES = [
  { to: "/races", label: "Races" },
  { to: "/jobs", label: "Jobs" },
  { to: "/compare", label: "Compare" },
  { to: "/devices", label: "Devices" },
] as const;
const LAUNCH = { to: "/launch", label: "Launch" } as const;

/** The frame of every page: where one can go, how fresh the data are, light or dark. */
export function Shell() {
  const path = useLocation({ select: ({ pathname }) => pathname });
  const pages = useRef<HTMLDivElement>(null);
  const { role, asked } = useWho();
  const people = { to: "/people", label: role === "admin" ? "People" : "Tokens" } as const;
  // Where nobody is asked, everybody is an admin, and the page has webhooks, secrets and what was done.
  const others = asked || role === "admin" ? [people] : [];
  const shown = [...PAGES, ...(may(role, "member") ? [LAUNCH] : []), ...others];
  // In large letters not all pages fit beside one another.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page is the reason to look again
  useEffect(() => {
    pages.current
      ?.querySelector("[data-status=active]")
      ?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [path]);
  return (
    <AppShell header={{ height: { base: 88, xs: 52 } }} padding={0}>
      <AppShell.Header>
        <a href="#content" className="ty-skip">
          Skip to the content
        </a>
        <Container size={1600} px={{ base: "xs", sm: "md" }} h="100%">
          <Group h="100%" gap="sm" className="ty-header">
            <Link to="/" aria-label="Trainyard" style={{ color: "inherit", textDecoration: "none" }}>
              <Group gap={8} wrap="nowrap">
                <img src="/trainyard.svg" alt="" width={26} height={26} />
                <Text fw={750} fz="lg" lts={-0.3} className="ty-name">
                  Trainyard
                </Text>
              </Group>
            </Link>
            <Group
              component="nav"
              ref={pages}
              gap={2}
              wrap="nowrap"
              aria-label="Pages"
              style={{ minWidth: 0, overflowX: "auto", scrollbarWidth: "none" }}
            >
              {shown.map((page) => (
                <Link
                  key={page.to}
                  to={page.to}
                  className="ty-nav"
                  activeOptions={{ exact: false, includeSearch: false }}
                  data-testid={`nav-${page.label.toLowerCase()}`}
                >
                  {page.label}
                </Link>
              ))}
            </Group>
            <Group gap={8} ml="auto" wrap="nowrap" miw={0}>
              <Connection />
              <HelpToggle />
              <ThemeToggle />
              <SignOut />
            </Group>
          </Group>
        </Container>
      </AppShell.Header>
      <AppShell.Main id="content" tabIndex={-1} style={{ outline: "none" }}>
        <Container size={1600} px={{ base: "xs", sm: "md" }} py="md">
          <Insecure />
          <Outlet />
        </Container>
      </AppShell.Main>
    </AppShell>
  );
}

/** Brings back what a newcomer reads once, or takes it away; on pages that have none, there is nothing to do. */
function HelpToggle() {
  const [closed, setClosed] = useHowToRead();
  const here = useHasHowToRead();
  if (!here) return null;
  return (
    <HeaderButton
      label={closed ? "Show how to read this" : "Hide how to read this"}
      data-testid="how-to-read-toggle"
      onClick={() => setClosed(!closed)}
    >
      <IconHelp size={18} />
    </HeaderButton>
  );
}

function ThemeToggle() {
  const { setColorScheme } = useMantineColorScheme();
  const dark = useComputedColorScheme("light") === "dark";
  return (
    <HeaderButton
      label={dark ? "Light theme" : "Dark theme"}
      data-testid="theme-toggle"
      onClick={() => setColorScheme(dark ? "light" : "dark")}
    >
      {dark ? <IconSun size={18} /> : <IconMoon size={18} />}
    </HeaderButton>
  );
}
