// Charts as SVG and PNG files. SVG is written from the panel's own data, not traced from pixels.

import type uPlot from 'uplot';
import { visible } from '../core/format';
import { heatColor, type Palette } from '../core/theme';
import type { HeatMap } from '../core/view';
import { intensity, peak } from './heat';

/** Text inside XML. */
export function xml(text: string): string {
  return visible(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

/** An SVG document. */
export function svg(width: number, height: number, p: Palette, body: string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${xml(p.font)}" font-size="11">`,
    `<rect width="100%" height="100%" fill="${xml(p.paper)}"/>`,
    ...body,
    '</svg>',
    '',
  ].join('\n');
}

const n = (value: number): string => String(Math.round(value * 100) / 100);

export interface Drawn {
  title: string;
  unit: string;
  chart: uPlot;
  lines: {
    label: string;
    color: string;
    dash?: number[] | undefined;
    width: number;
    y: number[];
  }[];
  heat?: HeatMap | undefined;
  /** Shaded parts of the time axis, and labelled moments, in seconds. */
  shaded?: { start: number; end: number }[];
  events?: { t: number; label: string }[];
  stalls?: { start: number; end: number; text: string }[];
}

interface AxisInternals {
  _splits?: number[];
  _values?: (string | null)[];
}

/** One panel as SVG elements below `top`; returns the elements and the height used. */
export function panelSvg(d: Drawn, p: Palette, top: number): { body: string[]; height: number } {
  const u = d.chart;
  const left = u.over.offsetLeft;
  const y0 = top + 24;
  const w = u.over.clientWidth;
  const hgt = u.over.clientHeight;
  const x = (v: number): number => left + u.valToPos(v, 'x');
  const y = (v: number): number => y0 + u.valToPos(v, 'y');
  const body = [
    `<text x="${left}" y="${top + 14}" fill="${xml(p.ink)}"><tspan font-weight="600">${xml(d.title)}</tspan> <tspan fill="${xml(p.soft)}">${xml(d.unit)}</tspan></text>`,
  ];
  for (const part of d.shaded ?? []) {
    body.push(
      `<rect x="${n(x(part.start))}" y="${n(y0)}" width="${n(x(part.end) - x(part.start))}" height="${n(hgt)}" fill="${xml(p.shade)}"/>`,
    );
  }
  (u.axes as AxisInternals[]).forEach((axis, i) => {
    (axis._splits ?? []).forEach((v, s) => {
      const label = axis._values?.[s] ?? '';
      if (i === 0) {
        body.push(`<path d="M${n(x(v))} ${n(y0)}v${n(hgt)}" stroke="${xml(p.line)}"/>`);
        if (label)
          body.push(
            `<text x="${n(x(v))}" y="${n(y0 + hgt + 16)}" fill="${xml(p.soft)}" text-anchor="middle">${xml(label)}</text>`,
          );
      } else {
        body.push(`<path d="M${n(left)} ${n(y(v))}h${n(w)}" stroke="${xml(p.line)}"/>`);
        if (label)
          body.push(
            `<text x="${n(left - 6)}" y="${n(y(v) + 4)}" fill="${xml(p.soft)}" text-anchor="end">${xml(label)}</text>`,
          );
      }
    });
  });
  if (d.heat) body.push(...heatSvg(d.heat, x, y, p));
  const xs = u.data[0] as number[];
  const names: { label: string; color: string; y: number }[] = [];
  for (const line of d.lines) {
    body.push(
      `<path d="${stepPath(xs, line.y, x, y)}" fill="none" stroke="${xml(line.color)}" stroke-width="${line.width}"${line.dash ? ` stroke-dasharray="${line.dash.join(' ')}"` : ''}/>`,
    );
    const end = line.y.findLast((v) => v !== null);
    if (end !== undefined && line.label) names.push({ ...line, y: y(end) + 4 });
  }
  let free = 0;
  for (const name of names.sort((a, b) => a.y - b.y)) {
    free = Math.max(name.y, free);
    body.push(
      `<text x="${n(left + w + 6)}" y="${n(free)}" fill="${xml(name.color)}">${xml(name.label)}</text>`,
    );
    free += 13;
  }
  for (const { start, end, text } of d.stalls ?? []) {
    const width = Math.max(1, x(end) - x(start));
    body.push(
      `<rect x="${n(x(start))}" y="${n(y0)}" width="${n(width)}" height="${n(hgt)}" fill="${xml(p.delay)}" fill-opacity="0.16"><title>${xml(text)}</title></rect>`,
    );
  }
  for (const event of d.events ?? []) {
    body.push(
      `<path d="M${n(x(event.t))} ${n(y0)}v${n(hgt)}" stroke="${xml(p.ink)}" stroke-opacity="0.55" stroke-dasharray="2 3"><title>${xml(event.label)}</title></path>`,
    );
  }
  return { body, height: hgt + 24 + 24 };
}

function stepPath(
  xs: readonly number[],
  ys: readonly (number | null)[],
  x: (v: number) => number,
  y: (v: number) => number,
): string {
  let out = '';
  let pen = false;
  xs.forEach((t, i) => {
    const v = ys[i];
    if (v === null || v === undefined) {
      pen = false;
      return;
    }
    out += pen ? `H${n(x(t))}V${n(y(v))}` : `M${n(x(t))} ${n(y(v))}`;
    pen = true;
  });
  return out;
}

function heatSvg(
  map: HeatMap,
  x: (v: number) => number,
  y: (v: number) => number,
  p: Palette,
): string[] {
  const top = peak(map);
  const out: string[] = [];
  let column = 0;
  for (let i = 0; i < map.cells.length; i += 3) {
    column += map.cells[i]!;
    const row = map.cells[i + 1]!;
    const from = map.t[column]!;
    const to = map.end[column]!;
    const level = intensity(map.cells[i + 2]! / (to - from), top);
    const high = y(map.low_ns * map.ratio ** (row + 1));
    out.push(
      `<rect x="${n(x(from))}" y="${n(high)}" width="${n(x(to) - x(from))}" height="${n(y(map.low_ns * map.ratio ** row) - high)}" fill="${heatColor(level, p.dark)}"/>`,
    );
  }
  return out;
}

/** Turns an SVG document into a PNG of twice its size. */
export async function png(document_: string, width: number, height: number): Promise<Blob> {
  const url = URL.createObjectURL(new Blob([document_], { type: 'image/svg+xml' }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = width * 2;
    canvas.height = height * 2;
    canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done, fail) => {
      canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error('no picture'))), 'image/png');
    });
  } finally {
    URL.revokeObjectURL(url);
  }
}
