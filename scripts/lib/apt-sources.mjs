/**
 * Reads the machine's own apt sources and writes one of them anew for another suite. Pure. The archive's address and
 * key always come from the machine, so that mirrors and proxies are honoured and none is committed here.
 */

/**
 * An apt source: the fields of a deb822 paragraph by lower-case name, in the order in which they stood.
 *
 * @typedef {ReadonlyMap<string, string>} Source
 */

/**
 * Reads a deb822 `.sources` file. Continuation lines (a key inside Signed-By, say) keep their line breaks.
 *
 * @param {string} text
 * @returns {Source[]}
 */
export function parseDeb822 (text) {
  /** @type {Map<string, string>[]} */
  const sources = []
  /** @type {Map<string, string> | undefined} */
  let paragraph
  let field = ''
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith('#')) continue
    if (line.trim() === '') { paragraph = undefined; continue }
    if (paragraph === undefined) sources.push(paragraph = new Map())
    if (/^\s/.test(line)) {
      paragraph.set(field, `${paragraph.get(field) ?? ''}\n${line}`)
      continue
    }
    const colon = line.indexOf(':')
    if (colon === -1) continue
    field = line.slice(0, colon).trim().toLowerCase()
    paragraph.set(field, line.slice(colon + 1).trim())
  }
  return sources
}

/**
 * Reads a one-line style `.list` file: `deb [signed-by=/path arch=amd64] URI suite component…`.
 *
 * @param {string} text
 * @returns {Source[]}
 */
export function parseOneLine (text) {
  return text.split(/\r?\n/).flatMap(line => {
    const match = /^\s*(deb|deb-src)\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)((?:\s+[^\s#]+)*)\s*(?:#.*)?$/.exec(line)
    if (match === null) return []
    const [, type = '', options = '', uri = '', suite = '', components = ''] = match
    const source = new Map([['types', type], ['uris', uri], ['suites', suite], ['components', components.trim()]])
    for (const option of options.split(/\s+/)) {
      const [name = '', value] = option.split('=', 2)
      if (value !== undefined) source.set(ONE_LINE_NAMES[name] ?? name, value.replaceAll(',', ' '))
    }
    return [source]
  })
}

/** @type {Readonly<Record<string, string>>} */
const ONE_LINE_NAMES = { arch: 'architectures', lang: 'languages', target: 'targets' }

/** What a machine may call the suite that it runs, besides its code name. */
const SUITE_ALIASES = ['stable', 'oldstable', 'oldoldstable', 'testing', 'unstable', 'sid']

/**
 * Finds the distribution's own archive among the machine's sources, the likeliest first. Others may use its code name
 * too; what tells the distribution's own are its folder and its key.
 *
 * @param {readonly Source[]} sources
 * @param {OsRelease} os
 * @returns {Source[]}
 */
export function distributionSources (sources, os) {
  const names = new Set([os.codename, ...SUITE_ALIASES])
  const fits = sources.filter(source =>
    words(source, 'types').includes('deb') &&
    words(source, 'suites').some(suite => names.has(suite)) &&
    words(source, 'components').includes('main') &&
    !words(source, 'uris').every(uri => uri.startsWith('cdrom:')) &&
    !/^(?:no|false|0|off)$/i.test(source.get('enabled') ?? 'yes'))
  const score = (/** @type {Source} */ source) =>
    (words(source, 'uris').some(uri => uri.replace(/\/$/, '').endsWith(`/${os.id}`)) ? 2 : 0) +
    ((source.get('signed-by') ?? '').includes(`${os.id}-archive`) ? 1 : 0)
  return fits.sort((a, b) => score(b) - score(a))
}

/** Fields that another suite needs as the machine has them; the rest are ours or of no use here. */
const KEPT_FIELDS = ['signed-by', 'architectures', 'trusted', 'allow-insecure', 'allow-weak', 'check-valid-until', 'by-hash', 'pdiffs']

/**
 * Writes a source as a deb822 file for another suite of the same archive.
 *
 * @param {Source} source
 * @param {string} suite
 * @param {readonly string[]} components
 */
export function renderForSuite (source, suite, components) {
  const fields = [
    ['types', 'deb'],
    ['uris', words(source, 'uris').filter(uri => !uri.startsWith('cdrom:')).join(' ')],
    ['suites', suite],
    ['components', components.join(' ')],
    // Of all that an archive offers (translations, software-centre metadata) only the list of packages is needed.
    ['targets', 'Packages'],
    ...KEPT_FIELDS.flatMap(name => source.has(name) ? [[name, source.get(name) ?? '']] : [])
  ]
  return fields.map(([name = '', value = '']) => `${titleCase(name)}:${value.startsWith('\n') ? '' : ' '}${value}\n`).join('')
}

/**
 * @typedef {{ id: string, codename: string }} OsRelease
 */

/**
 * Reads /etc/os-release.
 *
 * @param {string} text
 * @returns {OsRelease}
 */
export function parseOsRelease (text) {
  const value = (/** @type {string} */ name) => new RegExp(`^${name}=["']?([^"'\\n]*)`, 'm').exec(text)?.[1] ?? ''
  return { id: value('ID'), codename: value('VERSION_CODENAME') }
}

/**
 * @param {Source} source
 * @param {string} field
 */
function words (source, field) {
  return (source.get(field) ?? '').split(/\s+/).filter(word => word !== '')
}

/** @param {string} name */
function titleCase (name) {
  return name === 'uris' ? 'URIs' : name.replaceAll(/(^|-)[a-z]/g, letter => letter.toUpperCase())
}
