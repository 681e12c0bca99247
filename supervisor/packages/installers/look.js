// Says which Node packages a sandbox has: `node - ROOT [NAME]`. A line "+ NAME VERSION" for each package that
// require() finds by its name alone, of the package directory first, then of the image; with NAME only for that one.

"use strict";
const fs = require("fs");
const path = require("path");

const [root, wanted] = process.argv.slice(2);
const places = [path.join(root, "node_modules"), ...require("module").globalPaths, "/usr/local/lib/node_modules"];
const seen = new Set();

function tell(place, name) {
  if (seen.has(name) || (wanted && wanted !== name)) {
    return;
  }
  try {
    const version = JSON.parse(fs.readFileSync(path.join(place, name, "package.json"), "utf8")).version;
    seen.add(name);
    console.log("+", name, version);
  } catch {
    // no package
  }
}

for (const place of places) {
  for (const name of fs.existsSync(place) ? fs.readdirSync(place) : []) {
    if (name.startsWith("@")) {
      fs.readdirSync(path.join(place, name)).forEach((inner) => tell(place, `${name}/${inner}`));
    } else if (!name.startsWith(".")) {
      tell(place, name);
    }
  }
}
