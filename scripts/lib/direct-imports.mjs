import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { root } from "./run.mjs";

/**
 * Rooms are imported through their index.ts. esbuild splits chunks by file, so an index would make every command that uses one name of a room
 * load the whole room. This plugin redirects each import to the file that defines the name.
 * @type {import("esbuild").Plugin}
 */
export const directImports = {
  name: "direct-imports",
  setup(build) {
    /** @type {Map<string, Map<string, string>>} */
    const indexes = new Map();
    build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
      if (!path.startsWith(join(root, "src"))) return undefined;
      return { contents: redirect(readFileSync(path, "utf8"), path, indexes), loader: "ts" };
    });
  },
};

/**
 * @param {string} source
 * @param {string} path
 * @param {Map<string, Map<string, string>>} indexes
 */
function redirect(source, path, indexes) {
  return source.replace(
    /^import \{([^}]*)\} from "(\.[^"]*\/index\.ts)";/gm,
    (statement, /** @type {string} */ names, /** @type {string} */ specifier) => {
      const indexFile = join(dirname(path), specifier);
      const files = indexes.get(indexFile) ?? exportsOf(indexFile);
      indexes.set(indexFile, files);
      const imports = names
        .split(",")
        .map((name) => name.trim())
        .filter((name) => name !== "" && !name.startsWith("type "))
        .map((name) => {
          const file = files.get(name.split(" as ")[0] ?? name);
          const target = file === undefined ? specifier : relative(dirname(path), file);
          return `import { ${name} } from ${JSON.stringify(target.startsWith(".") ? target : `./${target}`)};`;
        });
      // Keep the number of lines, so that source maps stay correct.
      return imports.join(" ") + "\n".repeat(statement.split("\n").length - 1);
    },
  );
}

/**
 * @param {string} indexFile
 * @returns {Map<string, string>} file by exported name
 */
function exportsOf(indexFile) {
  const files = new Map();
  for (const [, names = "", specifier = ""] of readFileSync(indexFile, "utf8").matchAll(/^export \{([^}]*)\} from "(\.[^"]*)";/gm)) {
    for (const name of names.split(",").map((part) => part.trim())) {
      // Renamed exports still go through the index.
      if (name !== "" && !name.startsWith("type ") && !name.includes(" as ")) files.set(name, join(dirname(indexFile), specifier));
    }
  }
  return files;
}
