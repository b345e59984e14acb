/**
 * Finds the etcd to run. Node's builtins only: the setup script loads the built form of this file on a machine where
 * nothing else may be installed yet.
 */
import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, readdir, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { compareVersions, formatVersion, OLDEST_ETCD, parseVersion, parseVersionOutput } from './version.ts'
import type { EtcdVersion } from './version.ts'

/** `etcd --version` answers within milliseconds; whatever needs longer is not etcd, or its disk hangs. */
const VERSION_TIMEOUT_MS = 5000

/** The environment variable that names the etcd to run, before all else. */
export const ETCD_BINARY_VARIABLE = 'LOCKKEEPER_ETCD_BINARY'

export interface EtcdBinary {
  /** Absolute. */
  readonly path: string
  readonly version: EtcdVersion
  readonly source: 'environment' | 'path' | 'cache'
}

export type FoundEtcd =
  | { readonly ok: true; readonly etcd: EtcdBinary }
  | { readonly ok: false; readonly message: string }

export interface FindEtcdOptions {
  /** Where the variables named here are read; `process.env` when not given. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Tells the version of an executable, undefined when it is no etcd; runs it with `--version` when not given. */
  readonly askVersion?: (path: string) => Promise<EtcdVersion | undefined>
}

/**
 * Looks for an etcd of version 3.4 or newer, in this order: the one that LOCKKEEPER_ETCD_BINARY names (if that is no
 * usable etcd, the search ends there: nobody who names one wants another), `etcd` on PATH, the newest in the cache.
 *
 * @returns the etcd, or one message that says why none was found and what the choices are. Never rejects.
 */
export async function findEtcd (options: FindEtcdOptions = {}): Promise<FoundEtcd> {
  const env = options.env ?? process.env
  const askVersion = options.askVersion ?? runForVersion

  const named = env[ETCD_BINARY_VARIABLE] ?? ''
  if (named !== '') {
    const path = resolve(named)
    const version = await executable(path) ? await askVersion(path) : undefined
    if (version === undefined) return { ok: false, message: `${ETCD_BINARY_VARIABLE}: ${named} is not an etcd that runs here` }
    if (isTooOld(version)) return { ok: false, message: `${ETCD_BINARY_VARIABLE}: ${named} is etcd ${formatVersion(version)}; 3.4 or newer is needed` }
    return { ok: true, etcd: { path, version, source: 'environment' } }
  }

  for (const path of pathCandidates(env['PATH'] ?? '')) {
    if (!await executable(path)) continue
    const version = await askVersion(path)
    if (version !== undefined && !isTooOld(version)) return { ok: true, etcd: { path, version, source: 'path' } }
  }

  const cache = etcdCacheDir(env)
  for (const version of await cachedVersions(cache)) {
    const path = join(cache, formatVersion(version), 'etcd')
    if (await executable(path)) return { ok: true, etcd: { path, version, source: 'cache' } }
  }
  return { ok: false, message: noEtcdMessage(cache) }
}

/**
 * Where downloaded etcds are kept, shared by all clones of one user: `<this>/<version>/etcd`.
 *
 * Only what the setup script fetched as the default lies here. The other versions that the test matrix needs are kept
 * next door (`../matrix`), so that having run it once does not change which etcd `serve` starts.
 */
export function etcdCacheDir (env: Readonly<Record<string, string | undefined>> = process.env): string {
  return join(cacheRoot(env), 'etcd')
}

/** The user's cache for Lockkeeper, as the XDG base directory specification has it (a relative XDG_CACHE_HOME is void). */
export function cacheRoot (env: Readonly<Record<string, string | undefined>> = process.env): string {
  const xdg = env['XDG_CACHE_HOME'] ?? ''
  const home = env['HOME'] ?? ''
  const base = xdg.startsWith('/') ? xdg : join(home === '' ? homedir() : home, '.cache')
  return join(base, 'lockkeeper')
}

function noEtcdMessage (cache: string): string {
  return [
    'No etcd (3.4 or newer) was found. One of these helps:',
    `  - set ${ETCD_BINARY_VARIABLE} to the path of an etcd binary`,
    '  - install etcd so that `etcd` is on PATH (Debian and Ubuntu: etcd-server; Homebrew: etcd)',
    `  - put a binary at ${join(cache, '<version>', 'etcd')}`,
    '  - attach to a cluster that runs already: --etcd-endpoints'
  ].join('\n')
}

function isTooOld (version: EtcdVersion): boolean {
  return compareVersions(version, OLDEST_ETCD) < 0
}

/** An empty entry of PATH means the current directory, from which nothing should be run by chance: left out. */
function pathCandidates (path: string): string[] {
  return path.split(delimiter).filter(directory => directory !== '').map(directory => resolve(directory, 'etcd'))
}

/** Newest first. Names that are no version (a download under way, say) are passed over. */
async function cachedVersions (cache: string): Promise<EtcdVersion[]> {
  let names: string[]
  try {
    names = await readdir(cache)
  } catch {
    return [] // No cache yet, or none that can be read: nothing to choose from, and the caller says so.
  }
  return names
    .map(name => parseVersion(name))
    .filter(version => version !== undefined)
    .filter(version => !isTooOld(version))
    .sort((a, b) => compareVersions(b, a))
}

async function executable (path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}

/**
 * Every ETCD_* variable is a flag to etcd, and one that it cannot read ends it before it tells its version; only the
 * leave to run on a platform that etcd does not support officially is passed on.
 */
function runForVersion (path: string): Promise<EtcdVersion | undefined> {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('ETCD_') || name === 'ETCD_UNSUPPORTED_ARCH'))
  return new Promise(resolve => {
    execFile(path, ['--version'], { timeout: VERSION_TIMEOUT_MS, env }, (error, stdout) => {
      resolve(error === null ? parseVersionOutput(stdout) : undefined)
    })
  })
}
