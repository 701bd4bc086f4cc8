// Times in which somebody stood still: who, by colour and by pattern, the same in every panel, in the lane
// above them, and in the legend. The broker is the brown of its waits, bellows its own violet; a machine
// that ran nobody, and the time without a connection, are hatched. A look into the broker by another command is no
// stall, and explains one: it is fainter.

import type uPlot from 'uplot';
import { xml } from '../core/format';
import type { Palette } from '../core/theme';
import type { RunView, StallBand } from '../core/view';
import type { Scale } from './steps';

/** A band as the charts need it; one of nobody who stood still is a look. */
export type Band = Pick<StallBand, 'start' | 'end' | 'text'> & Partial<Pick<StallBand, 'who' | 'away'>>;

export type BandKind = 'broker' | 'away' | 'generator' | 'machine' | 'look';

export const BANDS: readonly (readonly [BandKind, string])[] = [
  ['broker', 'broker silent'],
  ['away', 'no connection'],
  ['generator', 'generator stopped'],
  ['machine', 'machine stopped'],
  ['look', 'inspected (bellows erlang)'],
];

export function bandKind(band: Band): BandKind {
  return band.away ? 'away' : (band.who ?? 'look');
}

export function bandsOf(run: Pick<RunView, 'stalls' | 'looks'>): Band[] {
  return [...run.stalls, ...run.looks];
}

/** Seconds that bands cover together: where several overlap, they count once. */
export function covered(bands: readonly Pick<Band, 'start' | 'end'>[]): number {
  let [sum, until] = [0, Number.NEGATIVE_INFINITY];
  for (const { start, end } of [...bands].sort((a, b) => a.start - b.start)) {
    sum += Math.max(0, end - Math.max(start, until));
    until = Math.max(until, end);
  }
  return sum;
}

interface Paint {
  color: (p: Palette) => string;
  /** The way that the hatch's lines go; none where it is filled. */
  hatch?: 'rising' | 'falling';
  opacity: number;
}

const PAINTS: Record<BandKind, Paint> = {
  broker: { color: (p) => p.receive, opacity: 0.24 },
  generator: { color: (p) => p.delay, opacity: 0.42 },
  away: { color: (p) => p.ink, hatch: 'rising', opacity: 0.5 },
  machine: { color: (p) => p.soft, hatch: 'falling', opacity: 0.6 },
  look: { color: (p) => p.accent, opacity: 0.13 },
};

const STEP = 6;

export function paintBands(u: uPlot, bands: readonly Band[], p: Palette): void {
  const { ctx, bbox } = u;
  const px = devicePixelRatio || 1;
  for (const band of bands) {
    const paint = PAINTS[bandKind(band)];
    const { min, max } = u.scales.x!;
    if (band.end < min! || band.start > max!) continue;
    const x = Math.max(bbox.left, u.valToPos(band.start, 'x', true));
    const end = Math.min(bbox.left + bbox.width, u.valToPos(band.end, 'x', true));
    const width = Math.max(px, end - x);
    ctx.save();
    ctx.globalAlpha = paint.opacity;
    ctx.fillStyle = paint.color(p);
    ctx.strokeStyle = paint.color(p);
    ctx.lineWidth = px;
    ctx.setLineDash([]);
    if (!paint.hatch || width < STEP * px) ctx.fillRect(x, bbox.top, width, bbox.height);
    else hatch(ctx, { left: x, top: bbox.top, width, height: bbox.height }, STEP * px, paint.hatch);
    ctx.restore();
  }
}

function hatch(ctx: CanvasRenderingContext2D, box: uPlot.BBox, step: number, way: 'rising' | 'falling'): void {
  const { left: x, top: y, width, height } = box;
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
  ctx.beginPath();
  // Lines keep their places on the canvas, so that neighbouring bands join.
  for (let at = Math.floor((x - height) / step) * step; at < x + width + height; at += step) {
    ctx.moveTo(at, way === 'rising' ? y + height : y);
    ctx.lineTo(at + height, way === 'rising' ? y : y + height);
  }
  ctx.stroke();
}

/** The bands as SVG elements; their document has the patterns of [`hatchesSvg`]. */
export function bandsSvg(bands: readonly Band[], x: Scale, top: number, height: number, p: Palette): string[] {
  return bands.map((band) => {
    const kind = bandKind(band);
    const { color, hatch: way, opacity } = PAINTS[kind];
    const left = x(band.start);
    const width = Math.max(1, x(band.end) - left);
    const at = `x="${left.toFixed(1)}" y="${top.toFixed(1)}" width="${width.toFixed(1)}" height="${height.toFixed(1)}"`;
    const paint = way ? `url(#hatch-${kind})` : xml(color(p));
    return `<rect class="band" ${at} fill="${paint}" fill-opacity="${opacity}"><title>${xml(band.text)}</title></rect>`;
  });
}

export function hatchesSvg(p: Palette): string {
  const patterns = Object.entries(PAINTS).flatMap(([kind, { color, hatch: way }]) => {
    if (!way) return [];
    const turn = way === 'rising' ? 45 : -45;
    return `<pattern id="hatch-${kind}" width="4.2" height="4.2" patternUnits="userSpaceOnUse" patternTransform="rotate(${turn})"><path d="M0 0V4.2" stroke="${xml(color(p))}" stroke-width="1.4"/></pattern>`;
  });
  return `<defs>${patterns.join('')}</defs>`;
}
