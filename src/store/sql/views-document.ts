import { derivedSignals, segmentSignals, signals } from "../signals/signal-list.ts";
import { columnMeaning } from "./column-meanings.ts";
import { viewDefinitions } from "./published-views.ts";
import { segmentView } from "./segment-views.ts";

const opening = `# SQL

Read what a colony stores with \`coral query sql\`. The statement is DuckDB's SQL, reads the views below and nothing else, and has
limits of time, rows and memory. \`SHOW TABLES\` lists the views, \`DESCRIBE span\` the columns of one with their meaning.

\`\`\`sh
coral query sql "DESCRIBE span"
coral query sql "SELECT service, sum(weight) AS spans FROM span WHERE time > now() - INTERVAL 5 MINUTE GROUP BY service"
coral query sql "SELECT client, server, evidence, requests FROM edges ORDER BY requests DESC NULLS LAST LIMIT 10"
\`\`\`

Times are in UTC. Views that end in \`_1m\` and \`_10m\` are merged to one and ten minutes and kept longer: [storage.md](storage.md).

This page is generated from the declarations of the views by \`npm run docs\`.
`;

/** docs/sql.md: every published view with a description of every column. */
export function renderViewsDocument(): string {
  const overSegments = segmentSignals.map((signal) => segmentView(signal, ""));
  const views = viewDefinitions("colony", [...new Set([...signals, ...derivedSignals])], overSegments).sort((a, b) =>
    a.name < b.name ? -1 : 1,
  );
  const isCoarser = (name: string): boolean => name.endsWith("_10m") && views.some((view) => view.name === name.replace(/_10m$/, "_1m"));
  const parts = views
    .filter(({ name }) => !isCoarser(name))
    .map(({ name, description, columns }) => {
      const coarser = name.replace(/_1m$/, "_10m");
      const heading = coarser === name ? name : `${name}, ${coarser}`;
      const rows = columns.map((column) => `| \`${column.name}\` | ${column.type} | ${cell(columnMeaning(name, column.name))} |`);
      return `## ${heading}\n\n${description.replace(/to 1 min/, "to 1 or 10 min")}.\n\n| column | type | meaning |\n|---|---|---|\n${rows.join("\n")}\n`;
    });
  return `${opening}\n${parts.join("\n")}`;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;");
}
