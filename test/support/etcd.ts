/**
 * Real etcd processes for tests, on free ports and in data directories of their own. All of them are gone when the
 * test is: stopped at teardown by pid, and by the kernel if the test's process dies without a teardown.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compareVersions, formatVersion, parseVersion } from '../../src/etcd/version.ts'
import { findEtcd } from '../../src/etcd/binary.ts'
import { EtcdExited, spawnEtcd } from './etcd-process.ts'
import type { EtcdProcess, Exit } from './etcd-process.ts'
import { freePort, freeUrl } from './ports.ts'

/** The part of tap's `t` that the helpers need. */
export interface Teardown {
  teardown: (fn: () => unknown) => void
}

/** PEM files; with them etcd speaks mutual TLS on both its ports. */
export interface EtcdTls {
  readonly ca: string
  readonly cert: string
  readonly key: string
}

export interface MemberOptions {
  readonly name: string
  /** Where it listens for peers and what it advertises to them. Default: a free port on 127.0.0.1. */
  readonly peerUrl?: string
  /** Where it listens for clients. Default: a free port on 127.0.0.1. */
  readonly clientUrl?: string
  /** What it tells the cluster its client URL is. Default: `clientUrl`. In a k0s cluster all members tell the same. */
  readonly advertiseClientUrl?: string
  /** `name=peerUrl` entries, as the join answer has them. Default: itself alone. */
  readonly initialCluster?: readonly string[]
  readonly state?: 'new' | 'existing'
  /** Default: a new directory, removed at teardown. */
  readonly dataDir?: string
  readonly tls?: EtcdTls
  /** Further etcd flags. */
  readonly extraArgs?: readonly string[]
  /** Default: `etcdForTests()`. */
  readonly binary?: string
}

export interface TestMember {
  readonly name: string
  readonly dataDir: string
  readonly clientUrl: string
  readonly peerUrl: string
  /** `name=peerUrl` */
  readonly initialClusterEntry: string
  /** Of the process that ran last. */
  readonly pid: number
  readonly running: boolean
  /** Settles when the process that ran last is gone. */
  readonly exited: Promise<Exit>
  /** Resolves once it serves clients, which it does after it has published its name; rejects with its log when it exits before. */
  ready: () => Promise<void>
  /** Ends it by SIGTERM and waits until it is gone. */
  stop: () => Promise<Exit>
  /** Ends it by SIGKILL and waits until it is gone. */
  kill9: () => Promise<Exit>
  /** SIGSTOP: it answers nothing any more, but its connections stand. */
  freeze: () => void
  thaw: () => void
  /** Starts it again with the same flags on the same data directory, after it has gone. */
  restart: () => void
  /** Empties its data directory, as a lost disk does. Only while it does not run. */
  wipe: () => Promise<void>
  /** Everything that it has written since the first start. */
  log: () => string
  /** Resolves with the line when a line that matches has been or is written. */
  logged: (pattern: RegExp) => Promise<string>
}

export interface ClusterOptions {
  /** Default 1: such a cluster takes members at once, a bigger one needs 5 s to settle. */
  readonly size?: number
  readonly tls?: EtcdTls
  readonly extraArgs?: readonly string[]
  /** All members tell the first one's client URL as theirs, as in a k0s cluster every member tells 127.0.0.1:2379. */
  readonly advertiseSameClientUrl?: boolean
  readonly binary?: string
}

export interface TestCluster {
  readonly members: readonly TestMember[]
  /** The only, or first, member. */
  readonly first: TestMember
  /** Client URLs. */
  readonly endpoints: readonly string[]
  readonly initialCluster: readonly string[]
}

/** The etcd that the tests run: LOCKKEEPER_TEST_ETCD (set by the matrix), else what `serve` would run. */
export async function etcdForTests (): Promise<string> {
  const given = process.env['LOCKKEEPER_TEST_ETCD'] ?? ''
  if (given !== '') return given
  const found = await findEtcd()
  if (!found.ok) throw new Error(found.message)
  return found.etcd.path
}

/**
 * Tells whether the etcd under test is `version` or newer, for the few tests that pin a rule of some versions only.
 *
 * @param version - `3.5.0`
 */
export async function etcdIsAtLeast (version: string): Promise<boolean> {
  const binary = await etcdForTests()
  const found = await findEtcd({ env: { LOCKKEEPER_ETCD_BINARY: binary } })
  const wanted = parseVersion(version)
  if (!found.ok || wanted === undefined) throw new Error(`cannot compare ${binary} with ${version}`)
  return compareVersions(found.etcd.version, wanted) >= 0
}

/** `3.5.16`, of the etcd under test. */
export async function etcdVersionUnderTest (): Promise<string> {
  const found = await findEtcd({ env: { LOCKKEEPER_ETCD_BINARY: await etcdForTests() } })
  if (!found.ok) throw new Error(found.message)
  return formatVersion(found.etcd.version)
}

/** A new cluster of `size` voters that has a leader and serves. Another process that grabs a port makes it try again. */
export async function startCluster (t: Teardown, options: ClusterOptions = {}): Promise<TestCluster> {
  for (let attempt = 1; ; attempt++) {
    const members = await launchCluster(t, options)
    const outcomes = await Promise.allSettled(members.map(member => member.ready()))
    const failed = outcomes.find(outcome => outcome.status === 'rejected')
    if (failed === undefined) {
      const [first] = members
      if (first === undefined) throw new RangeError('a cluster has at least one member')
      return {
        members,
        first,
        endpoints: members.map(member => member.clientUrl),
        initialCluster: members.map(member => member.initialClusterEntry)
      }
    }
    await Promise.all(members.map(member => member.kill9()))
    if (attempt === 3 || !portWasTaken(failed.reason)) throw failed.reason
  }
}

/** Starts all members at once: with `--initial-cluster-state new` none serves before a quorum of them runs. */
async function launchCluster (t: Teardown, options: ClusterOptions): Promise<TestMember[]> {
  const scheme = options.tls === undefined ? 'http' : 'https'
  const seats = await Promise.all(Array.from({ length: options.size ?? 1 }, async (_, index) => ({
    name: `m${index + 1}`,
    peerUrl: await freeUrl(scheme),
    clientUrl: await freeUrl(scheme)
  })))
  const initialCluster = seats.map(seat => `${seat.name}=${seat.peerUrl}`)
  return await Promise.all(seats.map(seat => startMember(t, {
    ...seat,
    initialCluster,
    state: 'new',
    ...options.advertiseSameClientUrl === true && seats[0] !== undefined ? { advertiseClientUrl: seats[0].clientUrl } : {},
    ...options.tls === undefined ? {} : { tls: options.tls },
    ...options.extraArgs === undefined ? {} : { extraArgs: options.extraArgs },
    ...options.binary === undefined ? {} : { binary: options.binary }
  })))
}

/** Starts one etcd process and returns at once: await `ready()` for more. */
export async function startMember (t: Teardown, options: MemberOptions): Promise<TestMember> {
  const { name } = options
  const scheme = options.tls === undefined ? 'http' : 'https'
  const peerUrl = options.peerUrl ?? await freeUrl(scheme)
  const clientUrl = options.clientUrl ?? `${scheme}://127.0.0.1:${await freePort()}`
  const binary = options.binary ?? await etcdForTests()
  const dataDir = options.dataDir ?? await mkdtemp(join(tmpdir(), 'lockkeeper-etcd-'))
  const entry = `${name}=${peerUrl}`
  const args = [
    `--name=${name}`,
    `--data-dir=${dataDir}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    `--listen-client-urls=${clientUrl}`,
    `--advertise-client-urls=${options.advertiseClientUrl ?? clientUrl}`,
    `--initial-cluster=${(options.initialCluster ?? [entry]).join(',')}`,
    `--initial-cluster-state=${options.state ?? 'new'}`,
    ...options.tls === undefined ? [] : tlsFlags(options.tls),
    ...options.extraArgs ?? []
  ]

  const earlier: EtcdProcess[] = []
  let current = spawnEtcd(binary, args)
  t.teardown(async () => {
    await current.end('SIGKILL')
    if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true })
  })

  return {
    name,
    dataDir,
    clientUrl,
    peerUrl,
    initialClusterEntry: entry,
    get pid () { return current.pid },
    get running () { return current.running },
    get exited () { return current.exited },
    ready: () => current.ready(),
    stop: () => current.end('SIGTERM'),
    kill9: () => current.end('SIGKILL'),
    freeze: () => { current.signal('SIGSTOP') },
    thaw: () => { current.signal('SIGCONT') },
    restart: () => {
      if (current.running) throw new Error(`${name} still runs`)
      earlier.push(current)
      current = spawnEtcd(binary, args)
    },
    wipe: async () => {
      if (current.running) throw new Error(`${name} still runs`)
      await rm(dataDir, { recursive: true, force: true })
    },
    log: () => [...earlier, current].map(process => process.log()).join(''),
    logged: pattern => current.logged(pattern)
  }
}

function tlsFlags (tls: EtcdTls): string[] {
  return [
    `--trusted-ca-file=${tls.ca}`, `--cert-file=${tls.cert}`, `--key-file=${tls.key}`, '--client-cert-auth',
    `--peer-trusted-ca-file=${tls.ca}`, `--peer-cert-file=${tls.cert}`, `--peer-key-file=${tls.key}`, '--peer-client-cert-auth'
  ]
}

function portWasTaken (reason: unknown): boolean {
  return reason instanceof EtcdExited && reason.log.includes('address already in use')
}
