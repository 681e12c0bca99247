// Tables that sort. HTML that is nothing but a plain table, as data frames print it, is read by the
// browser's parser into a document that runs and loads nothing; of that only texts are taken.

const TABLE_PARTS = "html,head,body,div,p,table,caption,colgroup,col,thead,tbody,tfoot,tr,th,td,style[scoped],br";
const ROWS_MAX = 2000;
const CELLS_MAX = 40000;
const COLUMNS_MAX = 200;
const HEAD_ROWS_MAX = 20;

const textOf = (cell) => cell.textContent.trim();

// Several rows of a head are one: a data frame has the name of its index in a second one.
function headOf(rows, width) {
  return Array.from({ length: width }, (_, at) =>
    rows.map((row) => (row.cells[at] ? textOf(row.cells[at]) : "")).filter(Boolean).join(" "));
}

// {head, rows, note}, or null if the HTML is more than a plain table, or one too wide to sort.
function readTable(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const tables = parsed.querySelectorAll("table");
  const plain = [...parsed.querySelectorAll("*")].every((part) => part.matches(TABLE_PARTS));
  const table = tables[0];
  if (tables.length !== 1 || !plain || table.tHead === null || table.tHead.rows.length === 0) return null;
  if ([...table.querySelectorAll("th, td")].some((cell) => cell.colSpan > 1 || cell.rowSpan > 1)) return null;
  const width = [...table.rows].reduce((most, row) => Math.max(most, row.cells.length), 0);
  if (width > COLUMNS_MAX || table.tHead.rows.length > HEAD_ROWS_MAX) return null;
  const head = headOf([...table.tHead.rows], width);
  const rows = [...table.rows].filter((row) => row.parentElement !== table.tHead);
  const most = Math.min(ROWS_MAX, Math.floor(CELLS_MAX / Math.max(1, width)));
  const note = [...parsed.querySelectorAll("p")].map(textOf).join(" ");
  return {
    head,
    rows: rows.slice(0, most).map((row) => [...row.cells].map((cell) => ({ text: textOf(cell), head: cell.localName === "th" }))),
    note: rows.length > most ? `the first ${most} of ${rows.length} rows` : note,
  };
}

const NOTHING = /^(|nan|nat|none|null|<na>)$/i;

const numberOf = (text) => (/^[-+.,\d]/.test(text) ? Number(text.replace(/,|%$/g, "")) : NaN);

// Compares two cells; those without a value are last in both orders.
function compare(a, b, numbers, direction) {
  const empty = NOTHING.test(a) - NOTHING.test(b);
  if (empty !== 0) return empty;
  return direction * (numbers ? numberOf(a) - numberOf(b) : a.localeCompare(b, undefined, { numeric: true }));
}

function areNumbers(rows, at) {
  const values = rows.map((row) => row[at]?.text ?? "").filter((text) => !NOTHING.test(text));
  return values.length > 0 && values.every((text) => !Number.isNaN(numberOf(text)));
}

function rowOf(cells, numbers) {
  return element("tr", {}, cells.map((cell, at) =>
    element(cell.head ? "th" : "td", cell.head ? { scope: "row" } : numbers[at] ? { class: "number" } : {}, cell.text)));
}

function sortable({ head, rows, note }, title) {
  const numbers = head.map((_, at) => areNumbers(rows, at));
  const body = element("tbody");
  const titles = head.map((text, at) => {
    const button = element("button", { type: "button" }, text || (at === 0 ? "index" : `column ${at + 1}`));
    const cell = element("th", { scope: "col" }, button);
    button.addEventListener("click", () => sortBy(at, cell));
    return cell;
  });
  function fill(list) {
    body.replaceChildren(...list.map((row) => rowOf(row, numbers)));
  }
  function sortBy(at, cell) {
    const order = cell.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    titles.forEach((other) => other.removeAttribute("aria-sort"));
    cell.setAttribute("aria-sort", order);
    const direction = order === "ascending" ? 1 : -1;
    fill(rows.toSorted((a, b) => compare(a[at]?.text ?? "", b[at]?.text ?? "", numbers[at], direction)));
  }
  fill(rows);
  const caption = element("caption", {}, note ? `${title}: ${note}` : title);
  const table = element("table", {}, caption, element("thead", {}, element("tr", {}, titles)), body);
  return element("div", { class: "table", tabindex: "0", role: "region", "aria-label": title }, table);
}
