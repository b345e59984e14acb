/**
 * Makes a fresh clone ready to run: packages, build, etcd. Called before `npm start` and `npm test`. Needs nothing but
 * Node and npm; does nothing and says nothing when all is as it should be.
 */
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureBuilt, isBuilt } from './lib/build.mjs'
import { ensureInstalled, isInstalled } from './lib/install.mjs'
import { fetchDebianDefault } from './lib/etcd-debian.mjs'
import { fetchRelease, RELEASE } from './lib/etcd-release.mjs'
import { withLock } from './lib/lock.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** @param {string} line */
function say (line) {
  console.error(`setup: ${line}`)
}

/** @returns {Promise<boolean>} */
async function ensureEtcd () {
  /** @type {import('../src/etcd/binary.ts')} */
  const { ETCD_BINARY_VARIABLE, etcdCacheDir, findEtcd } = await import(new URL('../dist/src/etcd/binary.js', import.meta.url).href)
  const found = await findEtcd()
  if (found.ok) return true
  // Who names an etcd wants that one, and who attaches to a cluster needs none.
  if ((process.env[ETCD_BINARY_VARIABLE] ?? '') !== '') { say(found.message); return false }
  if (process.env['npm_lifecycle_event'] === 'prestart' && (process.env['LOCKKEEPER_ETCD_ENDPOINTS'] ?? '') !== '') return true

  const cache = etcdCacheDir()
  const ways = [
    { what: `etcd ${RELEASE.version} (release archive)`, fetch: () => fetchRelease(cache) },
    { what: 'etcd (Debian package, unpacked into the cache)', fetch: () => fetchDebianDefault(cache) }
  ]
  for (const { what, fetch } of ways) {
    say(`Fetching ${what}`)
    const fetched = await fetch()
    if (fetched.ok) {
      say(`etcd ${fetched.version} is in ${fetched.path}`)
      return true
    }
    say(`That did not work: ${fetched.reason}`)
  }
  say(found.message)
  return false
}

/** The usual case needs no lock; where there is work, `npm start` and `npm test` of one clone take turns. */
async function ensureProject () {
  if (await isInstalled(root) && await isBuilt(root)) return true
  return await withLock(join(root, '.setup.lock'), async () => await ensureInstalled(root, say) && await ensureBuilt(root, say))
}

const ready = await ensureProject() && await ensureEtcd()
// Not by process.exitCode: a name server that does not answer would keep the process for its own time-out.
process.exit(ready ? 0 : 1)
