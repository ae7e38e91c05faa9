// Operates the page in the frame as a reader would, and collects the errors.
const same = (one, other) => Array.isArray(one) ? one.length === other.length && one.every((part, n) => part === other[n]) : one === other;
const wrong = [];
const is = (what, found, wanted) => {
  if (!same(found, wanted)) wrong.push(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
};
const frame = document.querySelector("iframe");
const look = (page, view) => {
  const all = [...page.querySelectorAll("table.matrix tr.entry")];
  const shown = () => all.filter((row) => row.offsetParent);
  const with_class = (name) => all.filter((row) => row.classList.contains(name)).length;
  const [find, a, b] = ["find", "a", "b"].map((id) => page.getElementById(id));
  const choose = (id) => page.getElementById(id).click();
  is("the table has rows", all.length > 0, true);
  is("the page opens with the cases that differ", shown().length, with_class("differs"));
  is("the page is as wide as the screen", page.documentElement.scrollWidth, view.innerWidth);
  const light = (color) => color.match(/[0-9]+/g).slice(0, 3).reduce((sum, part) => sum + +part, 0) / 3;
  const style = view.getComputedStyle(page.body);
  const dark = view.matchMedia("(prefers-color-scheme: dark)").matches;
  is("the page uses the requested colour scheme", dark, location.search === "?dark");
  is("the background is dark", light(style.backgroundColor) < 64, dark);
  is("the text contrasts with the background", Math.abs(light(style.color) - light(style.backgroundColor)) > 128, true);

  // The elements that the Tab key reaches, in order: the choice of rows, the search field, the compared columns, and the
  // table (which the arrow keys scroll).
  const stops = [...page.querySelectorAll("input, select, a[href], [tabindex]")].filter((stop) => stop.offsetParent);
  is("the first elements that the Tab key reaches", stops.slice(0, 7).map((stop) => stop.id || stop.className), ["differs", "bad", "all", "find", "a", "b", "wide"]);
  stops.slice(0, 8).forEach((stop) => { stop.focus(); is("an element that the Tab key reaches gets the focus", page.activeElement === stop, true); });

  choose("bad");
  is("the second choice shows the rows that did not pass", shown().length, with_class("bad"));
  choose("all");
  is("the third choice shows all rows", shown().length, all.length);
  const input = (field, value) => { field.value = value; field.dispatchEvent(new view.Event("input")); };
  const link = page.querySelector("table.matrix tr.entry td a");
  const row = link.closest("tr");
  input(find, row.querySelector("th").firstChild.textContent);
  is("the row that matches the search is shown", shown().includes(row), true);
  is("the search hides other rows", shown().length < all.length, true);
  is("the search is in the address", new view.URLSearchParams(view.location.search).get("find"), find.value);
  input(find, "no such words");
  is("a search without matches shows no row", shown().length, 0);
  is("a search without matches says so", !!page.getElementById("none").offsetParent, true);
  input(find, "");
  is("all rows are shown after the search is cleared", shown().length, all.length);

  const [first, last] = [1, a.options.length - 1];
  input(a, a.options[first].value);
  input(b, b.options[last].value);
  const text = (row, column) => row.cells[column].textContent;
  is("a comparison shows the rows that differ", shown(), all.filter((row) => text(row, first) !== text(row, last)));
  is("a comparison shows two columns", [...row.cells].filter((cell) => !cell.hidden).length, 3);
  is("the compared columns are in the address", new view.URLSearchParams(view.location.search).get("b"), b.value);
  input(a, "");
  input(b, "");
  is("all rows are shown after the comparison", shown().length, all.length);

  const fold = page.querySelector("button.fold");
  const folder = [...fold.closest("tbody").rows].slice(1);
  fold.click();
  is("a folder hides its rows", folder.some((row) => row.offsetParent), false);
  fold.click();
  is("a folder shows its rows again", folder.every((row) => row.offsetParent), true);

  const table = page.querySelector(".wide");
  table.scrollTop = 500;
  const head = page.querySelector("table.matrix thead th").getBoundingClientRect();
  is("the heading of the table stays visible", Math.abs(head.top - table.getBoundingClientRect().top) < 3, true);
  table.scrollTop = 0;

  for (const cell of [link, page.querySelector("table.matrix td.none a")]) {
    cell.click();
    const found = page.querySelector(":target");
    is("the link has a target", !!found, true);
    if (!found) return;
    const top = found.getBoundingClientRect().top;
    is("the target of the link is on the screen", top >= 0 && top < view.innerHeight, true);
    if (cell === link) is("the target has a heading and a command", ["h3", "code"].map((part) => !!found.querySelector(part)), [true, true]);
  }
};
frame.addEventListener("load", () => {
  try {
    look(frame.contentDocument, frame.contentWindow);
  } catch (error) {
    wrong.push(`${error}`);
  }
  document.getElementById("said").textContent = wrong.length ? wrong.join("\n") : "no errors";
});
