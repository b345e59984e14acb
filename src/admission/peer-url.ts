/**
 * The two things a joiner says about itself, its peer URL and its name, checked before anything is made of them.
 *
 * etcd looks for duplicate peer URLs by comparing strings, so `https://HOST:2380` and `https://host:2380` would be two
 * members to it. Everything that is compared or given to MemberAdd is therefore in one canonical form.
 */
import { BlockList, isIPv4, isIPv6 } from 'node:net'

export type PeerUrlResult =
  | { readonly ok: true; readonly url: string }
  | { readonly ok: false; readonly why: string }

/** A host name's limit (RFC 1035, 2.3.4). Names of members are host names as a rule; etcd itself sets no limit. */
const MAX_HOST_LENGTH = 253
const MAX_NODE_LENGTH = 255
const MAX_PORT = 65_535

const URL_PARTS = /^(?<scheme>https?):\/\/(?<host>\[[^\]]*\]|[^[\]:]+):(?<port>\d{1,5})$/i
const HOST_LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/

/** What would break `name=url,name=url` or a line of a log; unpaired surrogates cannot be written as UTF-8 at all. */
const NOT_IN_A_NODE_NAME = /[=,\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK.addAddress('::1', 'ipv6')

/** Addresses that nobody can be dialled at: "any", multicast, broadcast. IPv4-mapped forms are seen through by BlockList. */
const NEVER_A_PEER = new BlockList()
NEVER_A_PEER.addSubnet('0.0.0.0', 8, 'ipv4')
NEVER_A_PEER.addSubnet('224.0.0.0', 4, 'ipv4')
NEVER_A_PEER.addAddress('255.255.255.255', 'ipv4')
NEVER_A_PEER.addAddress('::', 'ipv6')
NEVER_A_PEER.addSubnet('ff00::', 8, 'ipv6')

/**
 * Brings a peer URL into the one form that is compared and stored: lower-case scheme and host, bracketed and compressed
 * IPv6, explicit port. etcd wants the port too and allows no path (client/pkg/types/urls.go).
 *
 * An unspecified, multicast or broadcast address is refused whatever the cluster looks like: no peer can dial it.
 */
export function canonicalPeerUrl (text: string): PeerUrlResult {
  const parts = URL_PARTS.exec(text)?.groups
  if (parts === undefined) return { ok: false, why: whyMalformed(text) }
  const { scheme = '', host: rawHost = '', port: rawPort = '' } = parts

  const port = Number(rawPort)
  if (port < 1 || port > MAX_PORT) return { ok: false, why: `port ${rawPort} is not between 1 and ${MAX_PORT}` }

  const host = canonicalHost(rawHost)
  if (host === undefined) return { ok: false, why: `"${rawHost}" is neither a host name nor an IP address` }
  if (isIn(NEVER_A_PEER, host)) return { ok: false, why: `${host} is not an address that other members can dial` }

  return { ok: true, url: `${scheme.toLowerCase()}://${host}:${port}` }
}

/**
 * Whether a joiner at `url` can be part of a cluster whose members are at `clusterPeerUrls`; undefined when it can,
 * else why not.
 *
 * @param url canonical, as {@link canonicalPeerUrl} gives it
 * @param clusterPeerUrls as they stand in etcd, in any form; those that cannot be read are left out of account
 */
export function checkAgainstCluster (url: string, clusterPeerUrls: readonly string[]): string | undefined {
  const peers = clusterPeerUrls.map(split).filter((peer) => peer !== undefined)
  const joiner = split(url)
  if (joiner === undefined || peers.length === 0) return undefined

  // Both schemes stand side by side while a cluster moves to TLS member by member: then either will do.
  const schemes = new Set(peers.map((peer) => peer.scheme))
  if (!schemes.has(joiner.scheme)) {
    return `the members of this cluster talk ${[...schemes].join(' and ')} to each other, not ${joiner.scheme}`
  }
  const elsewhere = peers.find((peer) => !isLoopback(peer.host))
  if (isLoopback(joiner.host) && elsewhere !== undefined) {
    return `${joiner.host} is a loopback address, and the member at ${elsewhere.host} cannot reach the joiner there`
  }
  return undefined
}

/**
 * The form in which a peer URL that already stands in etcd is compared with a canonical one. What is not a URL that we
 * would accept (somebody may have added it by hand) stands for itself.
 */
export function comparablePeerUrl (text: string): string {
  const canonical = canonicalPeerUrl(text)
  return canonical.ok ? canonical.url : text
}

/** Why `node` cannot be the name of an etcd member; undefined when it can. A name is opaque but for `--initial-cluster`'s syntax. */
export function whyBadNode (node: string): string | undefined {
  if (node === '') return 'node cannot be empty'
  if (node.length > MAX_NODE_LENGTH) return `node is longer than ${MAX_NODE_LENGTH} characters`
  if (NOT_IN_A_NODE_NAME.test(node)) return 'node must not contain "=", "," or control characters'
  return undefined
}

function canonicalHost (raw: string): string | undefined {
  if (raw.startsWith('[')) {
    const address = raw.slice(1, -1)
    // A zone ("fe80::1%eth0") means something on one host only.
    if (!isIPv6(address) || address.includes('%')) return undefined
    // URL compresses IPv6 as RFC 5952 says and writes it in lower case.
    return new URL(`http://[${address}]`).hostname
  }
  if (isIPv4(raw)) return raw
  const name = raw.toLowerCase()
  // One dot at the end makes a name absolute; it is part of the name for resolvers and certificates, so it stays.
  const labels = name.replace(/\.$/, '').split('.')
  const endsInANumber = /^(?:\d+|0x[0-9a-f]*)$/.test(labels.at(-1) ?? '')
  if (name.length > MAX_HOST_LENGTH || endsInANumber) return undefined
  return labels.every((label) => HOST_LABEL.test(label)) ? name : undefined
}

function whyMalformed (text: string): string {
  const rest = /^https?:\/\/(.*)$/is.exec(text)?.[1]
  if (rest === undefined) return 'it must begin with https:// or http://'
  if (/[/?#]/.test(rest)) return 'it must have no path, query or fragment'
  if (rest.includes('@')) return 'it must have no user or password'
  if (/:.*:/.test(rest) && !rest.startsWith('[')) return 'an IPv6 address must stand in brackets, as in https://[2001:db8::1]:2380'
  if (!/:\d+$/.test(rest)) return 'it must name a port, as in https://host:2380'
  return 'it is not a URL of the form https://host:port'
}

/** Scheme and host of a peer URL that stands in etcd; undefined when it is none, e.g. `unix://…`. */
function split (text: string): { readonly scheme: string; readonly host: string } | undefined {
  const parts = URL_PARTS.exec(text)?.groups
  if (parts?.['scheme'] === undefined || parts['host'] === undefined) return undefined
  return { scheme: parts['scheme'].toLowerCase(), host: parts['host'].toLowerCase() }
}

function isLoopback (host: string): boolean {
  const name = host.replace(/\.$/, '')
  return name === 'localhost' || name.endsWith('.localhost') || isIn(LOOPBACK, host)
}

function isIn (list: BlockList, host: string): boolean {
  if (isIPv4(host)) return list.check(host, 'ipv4')
  const address = host.replace(/^\[|\]$/g, '')
  return isIPv6(address) && list.check(address, 'ipv6')
}
