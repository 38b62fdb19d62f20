// The site renders the pages of docs, the README and a few others as they are: there are no copies, and GitHub shows the same.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const site = fileURLToPath(new URL('..', import.meta.url))
const root = path.join(site, '..')
const repository = 'https://github.com/lockmw/go'

// Every page of docs stands in one of these groups, under its title.
const groups: Record<string, string[]> = {
  'Locks': ['locks', 'semaphore', 'redlock', 'deadlocks', 'fencing', 'timeouts', 'reference'],
  'Around your code': ['http', 'tasks', 'river', 'consumers', 'scheduled', 'idempotency', 'recipes', 'your-tests'],
  'Choosing': ['which', 'market', 'migrating', 'servers', 'topologies'],
  'Running': ['operations', 'command', 'inspector', 'verify', 'scaling', 'compatibility'],
  'Inside': ['architecture', 'protocol', 'testing', 'found', 'benchmarks', 'performance-ledger', 'releasing'],
}
const others = ['deploy/README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md']

const pages = readdirSync(path.join(root, 'docs')).filter((name) => name.endsWith('.md')).map((name) => name.slice(0, -3))
const grouped = Object.values(groups).flat()
const missing = pages.filter((name) => !grouped.includes(name))
if (missing.length > 0) throw new Error(`config.mts: these pages are in no group: ${missing.join(', ')}`)

const shown = new Set(['README.md', ...others, ...pages.map((name) => `docs/${name}.md`)])

// title is the first heading of a page.
const title = (page: string) => /^# (.+)$/m.exec(readFileSync(path.join(root, page), 'utf8'))![1].replaceAll('`', '')

// item is a line of the sidebar.
const item = (page: string) => ({ text: title(page), link: `/${page.slice(0, -3)}` })

// slug makes an anchor of a heading as GitHub does, so that the links of the pages work in both places.
const slug = (heading: string) => heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\- _]/gu, '').replaceAll(' ', '-')

// target returns where a link of a page leads: to a page of the site, or to the repository.
function target(href: string, from: string): string {
  if (/^([a-z]+:|#|\/)/.test(href)) return href
  const [file, anchor] = href.split('#')
  const to = path.posix.join(path.posix.dirname(from), decodeURI(file)).replace(/\/$/, '')
  const suffix = anchor ? `#${anchor}` : ''
  if (to === 'README.md') return `/${suffix}`
  if (shown.has(to)) return `/${to}${suffix}`
  if (!existsSync(path.join(root, to))) throw new Error(`${from}: the link ${href} leads nowhere`)
  const kind = statSync(path.join(root, to)).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${to}${suffix}`
}

export default defineConfig({
  title: 'lockmw',
  description: 'Redis locks for HTTP routes, background tasks and Go functions',
  base: process.env.BASE ?? '/',
  head: [['style', {}, '.vp-doc a > img[src*="badge"] { display: inline }']],
  srcDir: '..',
  outDir: 'dist',
  cacheDir: 'cache',
  srcExclude: readdirSync(root).filter((name) => !['docs', 'deploy', 'README.md', ...others].includes(name)).map((name) => name.endsWith('.md') ? name : `${name}/**`),
  rewrites: { 'README.md': 'index.md' },
  cleanUrls: true,
  ignoreDeadLinks: 'localhostLinks',
  vite: {
    resolve: { alias: ['vue/server-renderer', 'vue'].map((name) => ({ find: new RegExp(`^${name}$`), replacement: path.join(site, 'node_modules', name) })) },
    server: { fs: { allow: [root] } },
  },
  markdown: {
    anchor: { slugify: slug },
    toc: { slugify: slug },
    config(md) {
      md.core.ruler.push('targets', (state) => {
        const from = path.relative(root, state.env.realPath ?? state.env.path)
        for (const token of state.tokens.flatMap((block) => block.children ?? [])) {
          const href = token.attrGet('href')
          if (token.type === 'link_open' && href) token.attrSet('href', target(href, from))
        }
      })
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    socialLinks: [{ icon: 'github', link: repository }],
    nav: [
      { text: 'Go reference', link: 'https://pkg.go.dev/github.com/lockmw/go' },
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
    sidebar: [
      { text: 'Start here', link: '/' },
      ...Object.entries(groups).map(([text, names]) => ({ text, collapsed: false, items: names.map((name) => item(`docs/${name}.md`)) })),
      { text: 'Project', collapsed: false, items: others.map(item) },
    ],
    editLink: { pattern: `${repository}/edit/main/:path` },
  },
})
