// Fails if a link or an image of the built site leads nowhere within it: node links.mjs [BASE]
import { existsSync, readdirSync, readFileSync } from 'node:fs'

const base = process.argv[2] ?? '/'
const files = readdirSync('dist', { recursive: true }).filter((name) => name.endsWith('.html'))
const html = Object.fromEntries(files.map((name) => [name, readFileSync(`dist/${name}`, 'utf8')]))
let checked = 0
const dead = []
for (const [name, text] of Object.entries(html)) {
  for (const [, href] of text.matchAll(/<(?:a|img)\b[^>]* (?:href|src)="([^"]*)"/g)) {
    if (/^[a-z]+:/.test(href)) continue
    const url = new URL(href.replaceAll('&amp;', '&'), `https://site${base}${name}`)
    const path = decodeURI(url.pathname).slice(base.length)
    const page = path === '' ? 'index.html' : html[path] ? path : `${path}.html`
    const anchor = decodeURIComponent(url.hash.slice(1))
    checked++
    if (!url.pathname.startsWith(base) || (!html[page] && !existsSync(`dist/${path}`))) dead.push(`${name}: ${href}`)
    else if (anchor && html[page] && !html[page].includes(`id="${anchor}"`)) dead.push(`${name}: ${href}: no such heading`)
  }
}
console.log(`${checked} links of ${files.length} pages`)
if (dead.length > 0 || checked < 1000) {
  console.error(dead.join('\n'))
  process.exit(1)
}
