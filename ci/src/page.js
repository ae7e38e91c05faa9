// Operates the page in the frame as a reader would, and collects the errors.
const wrong = [];
const is = (what, found, wanted) => {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) wrong.push(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`);
};
const frame = document.querySelector("iframe");
const look = (page, view) => {
  const all = [...page.querySelectorAll("table.matrix tbody tr")];
  const shown = () => all.filter((row) => row.offsetParent).length;
  const [bad, find] = ["only-bad", "find"].map((id) => page.getElementById(id));
  is("the table has rows", all.length > 0, true);
  is("all rows are shown", shown(), all.length);
  is("the page is as wide as the screen", page.documentElement.scrollWidth, view.innerWidth);
  const light = (color) => color.match(/[0-9]+/g).slice(0, 3).reduce((sum, part) => sum + +part, 0) / 3;
  const style = view.getComputedStyle(page.body);
  const dark = view.matchMedia("(prefers-color-scheme: dark)").matches;
  is("the page uses the requested colour scheme", dark, location.search === "?dark");
  is("the background is dark", light(style.backgroundColor) < 64, dark);
  is("the text contrasts with the background", Math.abs(light(style.color) - light(style.backgroundColor)) > 128, true);

  // The elements that the Tab key reaches, in order: the filter, the search field, the table (which the arrow keys
  // scroll).
  const stops = [...page.querySelectorAll("input, a[href], [tabindex]")].filter((stop) => stop.offsetParent);
  is("the first elements that the Tab key reaches", stops.slice(0, 3).map((stop) => stop.id || stop.className), ["only-bad", "find", "wide"]);
  stops.slice(0, 4).forEach((stop) => { stop.focus(); is("an element that the Tab key reaches gets the focus", page.activeElement === stop, true); });

  bad.click();
  is("the filter shows the rows that did not pass", shown(), all.filter((row) => !row.classList.contains("quiet")).length);
  bad.click();
  is("all rows are shown without the filter", shown(), all.length);
  const type = (text) => { find.value = text; find.dispatchEvent(new view.Event("input")); };
  const link = page.querySelector("table.matrix tbody td a");
  type(link.closest("tr").querySelector("th").textContent);
  is("the row that matches the search is shown", !!link.offsetParent, true);
  is("the search hides other rows", shown() < all.length, true);
  type("no such words");
  is("a search without matches shows no row", shown(), 0);
  type("");
  is("all rows are shown after the search is cleared", shown(), all.length);

  link.click();
  const found = page.querySelector(":target");
  is("the link has a target", !!found, true);
  if (!found) return;
  const top = found.getBoundingClientRect().top;
  is("the target of the link is on the screen", top >= 0 && top < view.innerHeight, true);
  is("the target has a heading and a command", ["h3", "code"].map((part) => !!found.querySelector(part)), [true, true]);
};
frame.addEventListener("load", () => {
  try {
    look(frame.contentDocument, frame.contentWindow);
  } catch (error) {
    wrong.push(`${error}`);
  }
  document.getElementById("said").textContent = wrong.length ? wrong.join("\n") : "no errors";
});
