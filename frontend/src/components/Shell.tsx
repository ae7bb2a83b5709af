import {
  ActionIcon,
  AppShell,
  Container,
  Group,
  Text,
  Tooltip,
  useComputedColorScheme,
  useMantineColorScheme,
} from "@mantine/core";
import { IconMoon, IconSun } from "@tabler/icons-react";
import { Link, Outlet } from "@tanstack/react-router";
import { Insecure } from "../access/Insecure";
import { SignOut } from "../access/SignOut";
import { Connection } from "./Connection";

const PAGES = [
  { to: "/race", label: "Race" },
  { to: "/races", label: "Races" },
  { to: "/jobs", label: "Jobs" },
  { to: "/compare", label: "Compare" },
  { to: "/launch", label: "Launch" },
] as const;

/** The frame of every page: where one can go, how fresh the data are, light or dark. */
export function Shell() {
  return (
    <AppShell header={{ height: 52 }} padding={0}>
      <AppShell.Header>
        <a href="#content" className="ty-skip">
          Skip to the content
        </a>
        <Container size={1600} px={{ base: "xs", sm: "md" }} h="100%">
          <Group h="100%" gap="sm" wrap="nowrap">
            <Link to="/race" aria-label="Trainyard" style={{ color: "inherit", textDecoration: "none" }}>
              <Group gap={8} wrap="nowrap">
                <img src="/trainyard.svg" alt="" width={26} height={26} />
                <Text fw={750} fz="lg" visibleFrom="xs" lts={-0.3}>
                  Trainyard
                </Text>
              </Group>
            </Link>
            <Group
              component="nav"
              gap={2}
              wrap="nowrap"
              aria-label="Pages"
              style={{ minWidth: 0, overflowX: "auto", scrollbarWidth: "none" }}
            >
              {PAGES.map((page) => (
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
            <Group gap={8} ml="auto" wrap="nowrap">
              <Connection />
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

function ThemeToggle() {
  const { setColorScheme } = useMantineColorScheme();
  const dark = useComputedColorScheme("light") === "dark";
  const label = dark ? "Light theme" : "Dark theme";
  return (
    <Tooltip label={label}>
      <ActionIcon
        variant="default"
        size="lg"
        aria-label={label}
        data-testid="theme-toggle"
        onClick={() => setColorScheme(dark ? "light" : "dark")}
      >
        {dark ? <IconSun size={18} /> : <IconMoon size={18} />}
      </ActionIcon>
    </Tooltip>
  );
}
