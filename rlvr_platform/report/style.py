"""The style sheet of a report: light and dark by the reader's setting, light on paper."""

STYLE = """
:root {
  --paper: #ffffff; --card: #f6f8fa; --ink: #1f2328; --quiet: #59636e; --line: #d8dee4;
  --good: #1a7f37; --bad: #b42318; --warn: #8a5a00;
  --c0: #2f6fd6; --c1: #d9730d; --c2: #2a9d6e; --c3: #c0398a;
  --c4: #7653c1; --c5: #128a99; --c6: #9a6b1f; --c7: #6b7280;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --card: #1d2126; --ink: #e6e9ec; --quiet: #9aa4af; --line: #363c44;
    --good: #57c27a; --bad: #f0816f; --warn: #e0b252;
    --c0: #74a3f5; --c1: #f2a65a; --c2: #5fcf9c; --c3: #ec82c0;
    --c4: #ac95ec; --c5: #5ac8d6; --c6: #d0a763; --c7: #a3acb8;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem; max-width: 78rem; background: var(--paper);
  color: var(--ink); font: 15px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
h1 { margin: 0; font-size: 1.7rem; overflow-wrap: anywhere; }
h2 { margin: 2.2rem 0 .8rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h3 { margin: .2rem 0; font-size: .95rem; overflow-wrap: anywhere; }
h4 { margin: .2rem 0; font-size: .9rem; }
p { margin: .3rem 0; overflow-wrap: anywhere; }
a { color: var(--c0); }
nav a { display: inline-block; margin: .4rem .9rem .4rem 0; }
.status { font-weight: 600; }
.status.finished { color: var(--good); }
.status.stopped { color: var(--warn); }
.status.failed { color: var(--bad); }
.quiet { color: var(--quiet); font-size: .85rem; }
.tiles, .grid { display: grid; gap: 1rem; }
.tiles { grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); margin-top: 1rem; }
.grid { grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); }
.tiles > div, figure, article {
  margin: 0; padding: .8rem 1rem; background: var(--card); border-radius: 8px; min-width: 0;
}
article { margin: .8rem 0; }
.value { font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: auto; margin: .4rem 0; }
svg text { fill: var(--quiet); font-size: 11px; font-variant-numeric: tabular-nums; }
path.grid { stroke: var(--line); stroke-width: 1; fill: none; }
path.axis { stroke: var(--quiet); stroke-width: 1; fill: none; }
.line { fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linejoin: round; }
.c1 .line, .c4 .line, .c7 .line { stroke-dasharray: 7 3; }
.c2 .line, .c5 .line { stroke-dasharray: 2 3; }
.band { fill: currentColor; opacity: .22; }
.mark, .area { fill: currentColor; }
path.over { fill: none; stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 5 3; }
.tip { fill: transparent; }
.tip:hover { fill: var(--ink); opacity: .12; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); }
.c3 { color: var(--c3); } .c4 { color: var(--c4); } .c5 { color: var(--c5); }
.c6 { color: var(--c6); } .c7 { color: var(--c7); }
figcaption ul {
  margin: 0; padding: 0; list-style: none; font-size: .85rem; font-variant-numeric: tabular-nums;
}
figcaption li { margin: .25rem 0; }
.swatch {
  display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: 2px;
  background: currentColor;
}
.over .swatch { height: 0; border-top: 2px dashed var(--ink); background: none; }
figcaption .quiet { display: block; }
.scroll { overflow-x: auto; margin: .6rem 0 1rem; }
table { border-collapse: collapse; font-size: .88rem; }
th, td { padding: .25rem .7rem; text-align: left; vertical-align: top; }
th { color: var(--quiet); font-weight: 600; }
tr + tr, tbody tr { border-top: 1px solid var(--line); }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.facts th { white-space: nowrap; }
.facts td { overflow-wrap: anywhere; }
code, pre { font: .86rem/1.4 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { unicode-bidi: isolate; overflow-wrap: break-word; }
pre {
  margin: .2rem 0; padding: .5rem .7rem; max-height: 22rem; overflow: auto;
  background: var(--paper); border: 1px solid var(--line); border-radius: 6px;
  white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate;
}
td pre { min-width: 16rem; }
.bar { display: inline-block; width: 8rem; height: .7em; background: var(--line); }
.bar span { display: block; height: 100%; background: var(--c0); }
summary { cursor: pointer; margin: .4rem 0; }
@media print {
  body { max-width: none; padding: 0; font-size: 11px; }
  nav { display: none; }
  .grid { grid-template-columns: 1fr 1fr; }
  .tiles { grid-template-columns: repeat(3, 1fr); }
  figure, tr, .tiles > div { break-inside: avoid; }
  h2, h3, h4 { break-after: avoid; }
  pre { max-height: none; }
  .scroll { overflow: visible; }
  .tiles > div, figure, article { border: 1px solid var(--line); background: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
