// Bars by day, as SVG. What a chart shows is said in its title too, and the figures are in the table below it.

import { make } from "../app/dom.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [640, 200, 72, 28, 10];

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** All days from one to another, both included. */
export function daysBetween(from, to) {
  const days = [];
  for (let day = Date.parse(from); day <= Date.parse(to); day += 86_400_000) days.push(new Date(day).toISOString().slice(0, 10));
  return days;
}

/**
 * A chart. `parts` are the kinds of bars that stand on each other: a class, a label, and their values by day. `told` is
 * how a value is written.
 */
export function chart(days, parts, title, told = String) {
  const sums = days.map((day) => parts.reduce((sum, { values }) => sum + (values.get(day) ?? 0), 0));
  const most = Math.max(...sums, 1);
  const step = (WIDTH - LEFT) / days.length;
  const height = (value) => value / most * (HEIGHT - TOP - BOTTOM);
  const bars = days.flatMap((day, index) => {
    let top = HEIGHT - BOTTOM;
    return parts.map(({ name, label, values }) => {
      const value = values.get(day) ?? 0;
      top -= height(value);
      const place = { x: LEFT + index * step + step * .1, y: top, width: step * .8, height: height(value), class: name };
      return value ? svg("rect", place, svg("title", {}, `${day}: ${told(value)} ${label}`)) : "";
    });
  });
  const axis = svg("line", { x1: LEFT, x2: WIDTH, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM, class: "axis" });
  const text = (x, y, anchor, content) => svg("text", { x, y, "text-anchor": anchor }, content);
  const labels = [
    text(LEFT - 6, TOP + 8, "end", told(most)),
    text(LEFT, HEIGHT - 6, "start", days[0] ?? ""),
    text(WIDTH, HEIGHT - 6, "end", days.at(-1) ?? ""),
  ];
  const total = sums.reduce((sum, value) => sum + value, 0);
  const label = `${title}: ${told(total)} from ${days[0]} to ${days.at(-1)}, at most ${told(Math.max(...sums, 0))} a day`;
  const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label }, axis, ...labels, ...bars);
  const legend = parts.length > 1 ? [make("p", { className: "legend" }, ...parts.map(({ name, label: of }) => make("span", { className: name }, of)))] : [];
  return [drawn, ...legend];
}
