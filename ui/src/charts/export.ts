// Charts as SVG and PNG files. SVG is written from the panel's own data, not traced from pixels.

import type uPlot from 'uplot';
import { button, save } from '../core/dom';
import { xml } from '../core/format';
import type { Grid } from '../core/histograms';
import { heatColor, type Palette, palette } from '../core/theme';
import { type Band, bandsSvg, hatchesSvg } from './bands';
import { intensity, peak } from './heat';
import type { Pen, Scale } from './steps';

function svg(width: number, height: number, p: Palette, body: string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${xml(p.font)}" font-size="11">`,
    hatchesSvg(p),
    `<rect width="100%" height="100%" fill="${xml(p.paper)}"/>`,
    ...body,
    '</svg>',
    '',
  ].join('\n');
}

/** Pixels above and below what is drawn. */
const MARGIN = 8;

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
    trace: (pen: Pen, x: Scale, y: Scale) => void;
    /** The value at its end; none where nothing was drawn. */
    end: number | null;
  }[];
  heat?: Grid | undefined;
  /** Shaded parts of the time axis, and labelled moments, in seconds. */
  shaded?: { start: number; end: number }[];
  events?: { t: number; label: string }[];
  stalls?: Band[];
}

interface AxisInternals {
  _splits?: number[];
  _values?: (string | null)[];
}

/** One panel as SVG elements below `top`; returns the elements and the height used. */
function panelSvg(d: Drawn, p: Palette, top: number): Part {
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
  // A time axis that shows a window: what lies outside is cut off.
  const clip = `plot-${Math.round(y0)}`;
  body.push(
    `<clipPath id="${clip}"><rect x="${n(left)}" y="${n(y0)}" width="${n(w)}" height="${n(hgt)}"/></clipPath>`,
    `<g clip-path="url(#${clip})">`,
  );
  for (const part of d.shaded ?? []) {
    body.push(
      `<rect x="${n(x(part.start))}" y="${n(y0)}" width="${n(x(part.end) - x(part.start))}" height="${n(hgt)}" fill="${xml(p.shade)}"/>`,
    );
  }
  body.push('</g>');
  (u.axes as AxisInternals[]).forEach((axis, i) => {
    (axis._splits ?? []).forEach((v, s) => {
      const label = axis._values?.[s];
      const line =
        i === 0
          ? { d: `M${n(x(v))} ${n(y0)}v${n(hgt)}`, x: x(v), y: y0 + hgt + 16, anchor: 'middle' }
          : { d: `M${n(left)} ${n(y(v))}h${n(w)}`, x: left - 6, y: y(v) + 4, anchor: 'end' };
      body.push(`<path d="${line.d}" stroke="${xml(p.line)}"/>`);
      if (!label) return;
      const at = `x="${n(line.x)}" y="${n(line.y)}"`;
      body.push(`<text ${at} fill="${xml(p.soft)}" text-anchor="${line.anchor}">${xml(label)}</text>`);
    });
  });
  body.push(`<g clip-path="url(#${clip})">`);
  if (d.heat) body.push(...heatSvg(d.heat, x, y, p));
  const names: { label: string; color: string; y: number }[] = [];
  for (const line of d.lines) {
    const steps: string[] = [];
    const pen: Pen = {
      moveTo: (x, y) => steps.push(`M${n(x)} ${n(y)}`),
      lineTo: (x, y) => steps.push(`L${n(x)} ${n(y)}`),
    };
    line.trace(pen, x, y);
    body.push(
      `<path d="${steps.join('')}" fill="none" stroke="${xml(line.color)}" stroke-width="${line.width}"${line.dash ? ` stroke-dasharray="${line.dash.join(' ')}"` : ''}/>`,
    );
    if (line.end !== null && line.label) names.push({ ...line, y: y(line.end) + 4 });
  }
  body.push(...bandsSvg(d.stalls ?? [], x, y0, hgt, p));
  for (const event of d.events ?? []) {
    body.push(
      `<path d="M${n(x(event.t))} ${n(y0)}v${n(hgt)}" stroke="${xml(p.ink)}" stroke-opacity="0.55" stroke-dasharray="2 3"><title>${xml(event.label)}</title></path>`,
    );
  }
  body.push('</g>');
  let free = 0;
  for (const name of names.sort((a, b) => a.y - b.y)) {
    free = Math.max(name.y, free);
    body.push(`<text x="${n(left + w + 6)}" y="${n(free)}" fill="${xml(name.color)}">${xml(name.label)}</text>`);
    free += 13;
  }
  return { body, height: hgt + 24 + 24 };
}

function heatSvg(map: Grid, x: Scale, y: Scale, p: Palette): string[] {
  const top = peak(map);
  const out: string[] = [];
  for (let i = 0; i < map.count.length; i++) {
    const row = map.row[i]!;
    const from = map.t[map.column[i]!]!;
    const to = map.end[map.column[i]!]!;
    const level = intensity(map.count[i]! / (to - from), top);
    const high = y(map.low_ns * map.ratio ** (row + 1));
    out.push(
      `<rect x="${n(x(from))}" y="${n(high)}" width="${n(x(to) - x(from))}" height="${n(y(map.low_ns * map.ratio ** row) - high)}" fill="${heatColor(level, p.dark)}"/>`,
    );
  }
  return out;
}

/** A part of a picture, and how high it is. */
export type Part = { body: string[]; height: number };

/** Panels below each other from `top` on. */
export function panelsSvg(panels: readonly Drawn[], p: Palette, top: number): Part {
  const body: string[] = [];
  let height = 0;
  for (const panel of panels) {
    const part = panelSvg(panel, p, top + height);
    body.push(...part.body);
    height += part.height;
  }
  return { body, height };
}

/** Buttons that save what is drawn from `top` on, as SVG or as a PNG of twice its size; `title` begins what they say. */
export function pictures(name: string, draw: (top: number) => Part & { width: number }, title = ''): HTMLElement[] {
  return (['svg', 'png'] as const).map((kind) => {
    const picture = (): void => {
      const { body, width, height } = draw(MARGIN);
      const text = svg(width, height + 2 * MARGIN, palette(), body);
      if (kind === 'svg') save(`${name}.svg`, text, 'image/svg+xml');
      else void png(text, width, height + 2 * MARGIN).then((blob) => save(`${name}.png`, blob));
    };
    return button(kind.toUpperCase(), picture, { title: title ? `${title} as ${kind.toUpperCase()}` : null });
  });
}

async function png(document_: string, width: number, height: number): Promise<Blob> {
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
