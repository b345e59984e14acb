/** etcd's version numbers: reading and ordering them. */

export interface EtcdVersion {
  readonly major: number
  readonly minor: number
  readonly patch: number
  /** What stands behind the dash, as in `3.6.0-rc.1`; empty for a release. */
  readonly preRelease: string
}

/**
 * The oldest etcd that Lockkeeper works with: learners, on which every admission rests, came with 3.4.
 */
export const OLDEST_ETCD: EtcdVersion = { major: 3, minor: 4, patch: 0, preRelease: '' }

/** Reads `3.5.16` or `3.6.0-rc.1`; undefined when it is neither. */
export function parseVersion (text: string): EtcdVersion | undefined {
  const match = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/.exec(text)
  if (match === null) return undefined
  const [, major, minor, patch, preRelease = ''] = match
  return { major: Number(major), minor: Number(minor), patch: Number(patch), preRelease }
}

/** Reads what `etcd --version` prints; undefined when some other program answered. */
export function parseVersionOutput (output: string): EtcdVersion | undefined {
  const match = /^etcd Version:\s*(\S+)/m.exec(output)
  return match?.[1] === undefined ? undefined : parseVersion(match[1])
}

/** The form that `parseVersion` reads. */
export function formatVersion (version: EtcdVersion): string {
  const { major, minor, patch, preRelease } = version
  return `${major}.${minor}.${patch}${preRelease === '' ? '' : `-${preRelease}`}`
}

/** Negative when `a` is older than `b`. A pre-release is older than its release; pre-releases are ordered by name. */
export function compareVersions (a: EtcdVersion, b: EtcdVersion): number {
  const numeric = a.major - b.major || a.minor - b.minor || a.patch - b.patch
  if (numeric !== 0 || a.preRelease === b.preRelease) return numeric
  if (a.preRelease === '') return 1
  if (b.preRelease === '') return -1
  return a.preRelease.localeCompare(b.preRelease, 'en', { numeric: true })
}
