// Making elements: element("button", {class: "ghost", onclick: f}, "text", other).
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value") node.value = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// A card of the page: a heading, a note below it, and what it shows.
export function card(title, note, ...children) {
  const heading = element("h2", {}, title);
  return element("section", { class: "card" }, heading, note ? element("p", { class: "note" }, note) : null, ...children);
}

// A choice from a few: buttons of which one is pressed.
export function segments(name, options, chosen, onchoose) {
  const group = element("div", { class: "segments", role: "group", "aria-label": name });
  for (const [value, text] of options)
    group.append(element("button", { type: "button", "aria-pressed": String(value === chosen), "data-value": value, onclick: () => {
      for (const other of group.children) other.setAttribute("aria-pressed", String(other.dataset.value === String(value)));
      onchoose(value);
    } }, text));
  return group;
}

export function select(name, options, chosen, onchoose, id) {
  const box = element("select", { id, onchange: () => onchoose(box.value) });
  for (const [value, text] of options) box.append(element("option", { value }, text));
  box.value = String(chosen);
  return element("label", { class: "field" }, element("span", { class: "quiet" }, name), box);
}

export function slider(name, { min, max, step, value, id, text = String }, onchange) {
  const shown = element("output", {}, text(value));
  const input = element("input", { type: "range", min, max, step, id, "aria-label": name, oninput: () => {
    shown.textContent = text(Number(input.value));
    onchange(Number(input.value));
  } });
  input.value = value;
  return element("label", { class: "field slider" }, element("span", { class: "quiet" }, name), input, shown);
}

export function say(text, wrong = false) {
  const status = document.getElementById("status");
  status.textContent = text;
  status.classList.toggle("wrong", wrong);
  status.classList.toggle("shown", text !== "");
}
