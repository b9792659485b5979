"""Whether everything that is written on a page can be read: the contrast of each text with what lies behind it.

As WCAG 2 has it: 4.5 to 1, and 3 to 1 for large text. Colours are those that the browser computed, laid over each other
from the page's ground up.
"""

CHECK = r"""
() => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  // The browser itself says what a colour of any notation is: red, green, blue and alpha from 0 to 1.
  const colour = (text) => {
    if (!known.has(text)) {
      const mix = /^color\(srgb ([\d.e+-]+) ([\d.e+-]+) ([\d.e+-]+)(?: \/ ([\d.e+-]+))?\)$/.exec(text);
      const plain = /^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/.exec(text);
      if (mix) known.set(text, [1, 2, 3].map((at) => Number(mix[at])).concat(Number(mix[4] ?? 1)));
      else if (plain) known.set(text, [1, 2, 3].map((at) => plain[at] / 255).concat(Number(plain[4] ?? 1)));
      else {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = text;
        context.fillRect(0, 0, 1, 1);
        known.set(text, [...context.getImageData(0, 0, 1, 1).data].map((part) => part / 255));
      }
    }
    return known.get(text);
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((part, at) => part * a + below[at] * (1 - a)).concat(1);
  const light = (rgb) => {
    const [r, g, b] = rgb.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = colour(getComputedStyle(document.documentElement).colorScheme.includes("dark")
    && matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(0, 0, 0)" : "rgb(255, 255, 255)");
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(colour(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), ground);
  };
  const opacity = (element) => {
    let all = 1;
    for (let at = element; at; at = at.parentElement) all *= Number(getComputedStyle(at).opacity);
    return all;
  };
  const poor = [];
  let seen = 0;
  const look = (element, style, text) => {
    const below = behind(element);
    const [r, g, b, a] = colour(element instanceof SVGElement ? style.fill : style.color);
    const [one, other] = [light(over([r, g, b, a * opacity(element)], below)), light(below)].sort((x, y) => y - x);
    const ratio = (one + 0.05) / (other + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    seen += 1;
    if (ratio < (isLarge ? 3 : 4.5)) {
      const name = element.tagName.toLowerCase() + [...element.classList].map((one) => "." + one).join("");
      poor.push(`${ratio.toFixed(2)} ${name} in ${element.parentElement?.className || element.parentElement?.tagName}: ${text.trim().slice(0, 40)}`);
    }
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({ visibilityProperty: true }) || element.closest("title, option, datalist")) continue;
    if (element.closest(".visually-hidden, .skip:not(:focus), :disabled")) continue;
    look(element, getComputedStyle(element), node.data);
  }
  for (const field of document.querySelectorAll("input, textarea")) {
    if (!field.checkVisibility() || field.disabled || ["checkbox", "radio", "hidden"].includes(field.type)) continue;
    if (field.value) look(field, getComputedStyle(field), field.value);
    else if (field.placeholder) look(field, getComputedStyle(field, "::placeholder"), field.placeholder);
  }
  return { seen, poor: [...new Set(poor)] };
}
"""


def check(page, where: str) -> list[str]:
    """All that cannot be read well on a page as it is now."""
    found = page.evaluate(CHECK)
    assert found["seen"] > 0, f"{where}: there is no text"
    return [f"{where}: {poor}" for poor in found["poor"]]
