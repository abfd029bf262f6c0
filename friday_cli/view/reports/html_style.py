"""The style sheet of reports in HTML: light and dark, for screens, phones and paper."""

STYLE = """
:root { --text: #1d1d1f; --dim: #5d5d66; --back: #fff; --soft: #f3f3f6; --line: #d5d5dc; --link: #0b57a4; --bad: #a3180f;
  --model: #2f6fd0; --tool: #2d8a54; --wait: #b9b9c4; --you: #c77700; --stop: #c2362b; --add: #e3f5e7; --del: #fbe7e5 }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8ec; --dim: #a2a2ad; --back: #17171a; --soft: #232328; --line: #3b3b44;
  --link: #8ab8f5; --bad: #ff8a80; --model: #6da0f0; --tool: #58b982; --wait: #5a5a66; --you: #f0b04c; --stop: #f07a70;
  --add: #17331f; --del: #401d1a } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; color: var(--text); background: var(--back);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25 } h2 { font-size: 1.2rem; margin-top: 2rem } h3 { display: inline; font-size: 1rem }
h4 { margin: 0; font-size: .85rem; color: var(--dim) }
a { color: var(--link) } .dim { color: var(--dim) } nav a { margin-right: 1rem }
.skip { position: absolute; left: -100rem } .skip:focus { position: static }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
pre { white-space: pre-wrap; background: var(--soft); padding: .6rem; border-radius: .3rem; margin: .4rem 0; max-height: 40rem;
  overflow: auto; font: .85rem/1.45 ui-monospace, monospace }
.diff span { display: block; white-space: pre-wrap } .diff .add { background: var(--add) } .diff .del { background: var(--del) }
.diff .at { color: var(--dim) }
ul.tree, ul.tree ul.tree { list-style: none; padding-left: 1rem } ul.tree > li { border-left: 2px solid var(--line); padding-left: .7rem;
  margin: .5rem 0 }
details.agent { border-top: 1px solid var(--line); padding: .6rem 0 } summary { cursor: pointer } article { margin: .8rem 0 }
article.reply pre, article.result pre { background: none; padding: 0; font: inherit; max-height: none }
.call { margin: .3rem 0 .3rem 1rem } .call.error > summary, .call.denied > summary, .warning, .note.error { color: var(--bad) }
.note { color: var(--dim) } .wide { overflow-x: auto } table { border-collapse: collapse; width: 100%; font-size: .9rem }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem; border-bottom: 1px solid var(--line); overflow-wrap: normal; white-space: nowrap } .n { text-align: right }
td.long { white-space: normal; min-width: 18rem } .wide + .wide { margin-top: 1rem }
svg { min-width: 40rem; width: 100%; font: 12px system-ui, sans-serif; fill: var(--text) } svg .n { text-anchor: end }
@media (max-width: 40rem) { svg { font-size: 15px } }
svg.key { width: .9rem; min-width: 0; height: .9rem; vertical-align: middle } .legend span { margin-right: 1rem; white-space: nowrap }
.axis { fill: var(--dim) } .run, .other { fill: var(--line) } .model { fill: var(--model) } .tool { fill: var(--tool) }
.child, .queued { fill: var(--wait) } .person, .budget { fill: var(--you) } .rate { fill: var(--stop) }
.pause { stroke: var(--dim); stroke-dasharray: 2 3 }
@media print { body { max-width: none; font-size: 10pt } nav, .skip { display: none } pre { max-height: none; overflow: visible }
  details::details-content { content-visibility: visible; block-size: auto } summary { break-after: avoid } a { color: inherit } }
"""
