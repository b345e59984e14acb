/**
 * Fetches etcd from Debian's packages, without root and without touching the system: apt with a state of its own
 * downloads and verifies the package, dpkg-deb unpacks it, nothing is installed.
 */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { distributionSources, parseDeb822, parseOneLine, parseOsRelease, renderForSuite } from './apt-sources.mjs'
import { placeEtcd, withWorkshop } from './etcd-cache.mjs'
import { run } from './run.mjs'

const PACKAGE = 'etcd-server'
/** Debian 13: its 3.5 still gets fixes, the 3.4 of Debian 12 does not. Its etcd runs on Debian 12 as well. */
const PREFERRED_SUITE = 'trixie'
/** The lists of a suite are some 10 MB; a mirror that does not get that across in two minutes is of no use. */
const APT_TIMEOUT_MS = 120_000

/** @typedef {import('./apt-sources.mjs').Source} Source */
/** @typedef {import('./apt-sources.mjs').OsRelease} OsRelease */

/**
 * Fetches the default: on Debian the newest of trixie and the machine's own suite, on its relatives that of the
 * machine's own suite.
 *
 * @param {string} cache - where it is put
 * @returns {Promise<import('./etcd-cache.mjs').Fetched>}
 */
export async function fetchDebianDefault (cache) {
  const machine = await readMachine()
  if (!machine.ok) return machine
  const { codename, id } = machine.os
  const suites = id === 'debian' ? [...new Set([PREFERRED_SUITE, codename])] : [codename]
  return await fetchNewest(cache, machine, suites.filter(suite => suite !== ''))
}

/**
 * Fetches the etcd of one suite of Debian.
 *
 * @param {string} cache - where it is put
 * @param {string} suite
 * @returns {Promise<import('./etcd-cache.mjs').Fetched>}
 */
export async function fetchDebianSuite (cache, suite) {
  const machine = await readMachine()
  if (!machine.ok) return machine
  if (machine.os.id !== 'debian') return { ok: false, reason: `this is ${machine.os.id || 'no Debian'}: its apt knows no suite ${suite}` }
  return await fetchNewest(cache, machine, [suite])
}

/**
 * @param {string} cache
 * @param {Machine} machine
 * @param {readonly string[]} suites
 * @returns {Promise<import('./etcd-cache.mjs').Fetched>}
 */
async function fetchNewest (cache, machine, suites) {
  /** @type {string[]} */
  const reasons = []
  for (const source of machine.sources) {
    const outcome = await withWorkshop(cache, async workshop => {
      const offers = []
      for (const suite of suites) {
        const offer = await look(workshop, source, suite, machine.os.id)
        if (typeof offer === 'string') reasons.push(offer)
        else offers.push(offer)
      }
      offers.sort((a, b) => b.version.localeCompare(a.version, 'en', { numeric: true }))
      for (const offer of offers) {
        const binary = await unpack(offer)
        const placed = binary.ok ? await placeEtcd(cache, offer.directory, binary.path) : binary
        if (placed.ok) return placed
        reasons.push(`${offer.suite}: ${placed.reason}`)
      }
      return undefined
    })
    if (outcome !== undefined) return outcome
  }
  return { ok: false, reason: reasons.join('; ') || 'apt has no source of the distribution\'s own archive' }
}

/**
 * @typedef {object} Offer
 * @property {string} suite
 * @property {string} version - of the package
 * @property {string} directory - for the work
 * @property {string} config - of the private apt
 */

/**
 * Sets up a private apt for one suite and asks what version it has.
 *
 * @param {string} workshop
 * @param {Source} source
 * @param {string} suite
 * @param {string} distribution
 * @returns {Promise<Offer | string>} or the reason why there is none
 */
async function look (workshop, source, suite, distribution) {
  const directory = join(workshop, suite)
  const folders = ['sources', 'state/lists/partial', 'cache/archives/partial']
  for (const folder of folders) await mkdir(join(directory, folder), { recursive: true })
  // Ubuntu keeps etcd in universe.
  const components = distribution === 'debian' ? ['main'] : ['main', 'universe']
  await writeFile(join(directory, 'sources', 'lockkeeper.sources'), renderForSuite(source, suite, components))
  const config = join(directory, 'apt.conf')
  await writeFile(config, privateAptConfig(directory))

  const update = await run('apt-get', ['-c', config, '-qq', 'update'], { timeoutMs: APT_TIMEOUT_MS, env: plainLanguage() })
  if (!update.ok) return `${suite}: apt-get update failed: ${firstComplaint(update.stderr)}`
  const policy = await run('apt-cache', ['-c', config, 'policy', PACKAGE], { timeoutMs: APT_TIMEOUT_MS, env: plainLanguage() })
  const version = /^\s*Candidate:\s*(\S+)/m.exec(policy.stdout)?.[1] ?? '(none)'
  if (version === '(none)') return `${suite} has no ${PACKAGE}`
  return { suite, version, directory, config }
}

/**
 * @param {Offer} offer
 * @returns {Promise<{ ok: true, path: string } | { ok: false, reason: string }>}
 */
async function unpack ({ directory, config, version }) {
  const download = await run('apt-get', ['-c', config, '-qq', 'download', `${PACKAGE}=${version}`], { timeoutMs: APT_TIMEOUT_MS, cwd: directory, env: plainLanguage() })
  const archive = (await readdir(directory)).find(name => name.endsWith('.deb'))
  if (!download.ok || archive === undefined) return { ok: false, reason: `apt-get download failed: ${firstComplaint(download.stderr)}` }
  const unpacked = await run('dpkg-deb', ['-x', join(directory, archive), join(directory, 'unpacked')], { timeoutMs: APT_TIMEOUT_MS })
  if (!unpacked.ok) return { ok: false, reason: `dpkg-deb failed: ${firstComplaint(unpacked.stderr)}` }
  return { ok: true, path: join(directory, 'unpacked', 'usr', 'bin', 'etcd') }
}

/**
 * The machine's own configuration (proxies, credentials) holds, but for where apt keeps things, what it fetches, and
 * what it would start afterwards.
 *
 * @param {string} directory - absolute
 */
export function privateAptConfig (directory) {
  return `\
Dir::State "${directory}/state";
Dir::Cache "${directory}/cache";
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "${directory}/sources";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Debug::NoLocking "1";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "0";
Acquire::http::Timeout "5";
Acquire::https::Timeout "5";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
`
}

/**
 * @typedef {{ ok: true, os: OsRelease, sources: readonly Source[] }} Machine
 */

/** @returns {Promise<Machine | { ok: false, reason: string }>} */
async function readMachine () {
  const tools = await Promise.all([run('apt-get', ['--version'], { timeoutMs: 5000 }), run('dpkg-deb', ['--version'], { timeoutMs: 5000 })])
  if (!tools.every(tool => tool.ok)) return { ok: false, reason: 'this machine has no apt' }
  const os = parseOsRelease(await readFile('/etc/os-release', 'utf8').catch(() => ''))
  const parts = '/etc/apt/sources.list.d'
  const names = await readdir(parts).catch(() => [])
  const files = ['/etc/apt/sources.list', ...names.map(name => join(parts, name))]
  const sources = await Promise.all(files.map(async file => {
    const text = await readFile(file, 'utf8').catch(() => '') // One that cannot be read is one that cannot be used.
    if (file.endsWith('.sources')) return parseDeb822(text)
    return file.endsWith('.list') ? parseOneLine(text) : []
  }))
  return { ok: true, os, sources: distributionSources(sources.flat(), os).slice(0, 3) }
}

/** apt's messages are read here, so it must not translate them. */
function plainLanguage () {
  return { ...process.env, LC_ALL: 'C' }
}

/** @param {string} stderr */
function firstComplaint (stderr) {
  const lines = stderr.split('\n').map(line => line.trim()).filter(line => line !== '')
  return lines.find(line => line.startsWith('E:')) ?? lines[0] ?? 'without a word'
}
