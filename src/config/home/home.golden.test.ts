/** The golden layout of CORAL_HOME: a new build must find the files of the previous one. */

import { expect, it } from "vitest";
import { agentPaths, colonyPaths, homePaths } from "./home.ts";

it("lays out CORAL_HOME with the golden paths", () => {
  expect({ home: homePaths("/h"), colony: colonyPaths("/h", "shop-dev-1a2b3c"), agent: agentPaths("/h") }).toEqual({
    home: { home: "/h", configFile: "/h/config.yaml", coloniesDirectory: "/h/colonies", tokensDirectory: "/h/tokens" },
    colony: {
      directory: "/h/colonies/shop-dev-1a2b3c",
      configFile: "/h/colonies/shop-dev-1a2b3c/colony.yaml",
      caDirectory: "/h/colonies/shop-dev-1a2b3c/ca",
      dataDirectory: "/h/colonies/shop-dev-1a2b3c/data",
      databaseFile: "/h/colonies/shop-dev-1a2b3c/data/colony.duckdb",
      socketFile: "/h/colonies/shop-dev-1a2b3c/colony.sock",
      pidFile: "/h/colonies/shop-dev-1a2b3c/colony.pid",
      logsDirectory: "/h/colonies/shop-dev-1a2b3c/logs",
      logFile: "/h/colonies/shop-dev-1a2b3c/logs/colony.log",
    },
    agent: {
      directory: "/h/agent",
      configFile: "/h/agent/agent.yaml",
      idFile: "/h/agent/agent-id",
      identityDirectory: "/h/agent/identity",
      keyFile: "/h/agent/identity/key.pem",
      certificateFile: "/h/agent/identity/cert.pem",
      caFile: "/h/agent/identity/ca.pem",
      dataDirectory: "/h/agent/data",
      databaseFile: "/h/agent/data/agent.duckdb",
      socketFile: "/h/agent/agent.sock",
      pidFile: "/h/agent/agent.pid",
      logsDirectory: "/h/agent/logs",
      logFile: "/h/agent/logs/agent.log",
    },
  });
});
