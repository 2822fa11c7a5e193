// Files that the page hands over, and texts that it puts on the clipboard.

import { CanvasPainter, SvgPainter } from "./painter.js";
import { theme } from "./colours.js";

export function download(name, body, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(body instanceof Blob ? body : new Blob([body], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function savePng(name, width, height, draw) {
  const canvas = document.createElement("canvas");
  const painter = new CanvasPainter(canvas, width, height, 2);
  painter.rect(0, 0, width, height, theme().paper);
  draw(painter);
  canvas.toBlob((blob) => download(`${name}.png`, blob), "image/png");
}

export function saveSvg(name, width, height, draw) {
  const painter = new SvgPainter(width, height, theme().paper);
  draw(painter);
  download(`${name}.svg`, painter.toString(), "image/svg+xml");
}

export async function onClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export function showText(title, text) {
  const dialog = document.getElementById("text-dialog");
  document.getElementById("text-title").textContent = title;
  document.getElementById("text-body").value = text;
  document.getElementById("text-copy").textContent = "Copy";
  dialog.showModal();
  document.getElementById("text-body").setSelectionRange(0, 0);
  document.getElementById("text-body").scrollTop = 0;
}

export function prepareDialog() {
  const dialog = document.getElementById("text-dialog");
  const body = document.getElementById("text-body");
  document.getElementById("text-close").onclick = () => dialog.close();
  document.getElementById("text-copy").onclick = async (event) => {
    body.select();
    event.target.textContent = (await onClipboard(body.value)) ? "Copied" : "Press Ctrl+C";
  };
}
