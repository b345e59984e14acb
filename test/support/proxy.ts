/**
 * A TCP proxy on loopback that a test can freeze, make lossy or take away: hung hosts, partitions and lost replies,
 * which a killed process does not show. The idea is from etcd3's own tests.
 */
import { createServer, connect } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { EventEmitter, once } from 'node:events'
import type { Teardown } from './etcd.ts'

/** From the one who connects to the target, or back. */
export type Direction = 'toTarget' | 'toClient'

/** pass: as it comes. freeze: held back and delivered after the next `pass`. drop: read and thrown away. */
export type Flow = 'pass' | 'freeze' | 'drop'

export interface Proxy {
  readonly port: number
  /** `host:port` */
  readonly address: string
  /** The target's URL with the proxy's address in place of its own. */
  readonly url: string
  /** How many connections stand. */
  readonly connections: number
  /** Sets what happens to bytes in this direction, on the connections that stand and on later ones. */
  set: (direction: Direction, flow: Flow) => void
  /** Both directions pass again; what was frozen is delivered. */
  pass: () => void
  /** Neither direction passes: connections are accepted, and nothing answers. */
  freeze: () => void
  /** Requests reach the target and are carried out; no answer comes back. */
  dropReplies: () => void
  /** Connections that stand are reset. */
  cut: () => void
  /** New connections are refused, until `accept`. Those that stand are left alone: see `cut`. */
  refuse: () => Promise<void>
  accept: () => Promise<void>
  /** Resolves at the next bytes in this direction, whether they pass or not (frozen bytes do not come before they are thawed). */
  nextBytes: (direction: Direction) => Promise<void>
}

/**
 * Starts a proxy that is gone at teardown.
 *
 * @param target - a URL, or `host:port`
 */
export async function startProxy (t: Teardown, target: string): Promise<Proxy> {
  const targetUrl = new URL(target.includes('://') ? target : `tcp://${target}`)
  const flows: Record<Direction, Flow> = { toTarget: 'pass', toClient: 'pass' }
  const links = new Set<Link>()
  const seen = new EventEmitter<Record<Direction, []>>()

  const server = createServer({ allowHalfOpen: true }, client => {
    const upstream = connect({ host: targetUrl.hostname.replace(/^\[|\]$/g, ''), port: Number(targetUrl.port), allowHalfOpen: true })
    const link: Link = {
      cut: () => { client.resetAndDestroy(); upstream.resetAndDestroy() },
      apply: direction => { steer(direction === 'toTarget' ? client : upstream, flows[direction]) }
    }
    links.add(link)
    carry(client, upstream, 'toTarget')
    carry(upstream, client, 'toClient')
    for (const socket of [client, upstream]) {
      // An end that breaks takes the other with it, as if the proxy were not there.
      socket.on('error', () => { link.cut() })
      socket.on('close', () => { links.delete(link) })
    }
    link.apply('toTarget')
    link.apply('toClient')
  })

  function carry (from: Socket, to: Socket, direction: Direction): void {
    from.on('data', (chunk: Buffer) => {
      seen.emit(direction)
      if (flows[direction] === 'drop' || to.destroyed) return
      if (!to.write(chunk)) {
        from.pause()
        to.once('drain', () => { steer(from, flows[direction]) })
      }
    })
    from.on('end', () => { if (flows[direction] !== 'drop') to.end() })
  }

  function set (direction: Direction, flow: Flow): void {
    flows[direction] = flow
    for (const link of links) link.apply(direction)
  }

  async function accept (port: number): Promise<void> {
    if (server.listening) return
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }

  await accept(0)
  const { port } = server.address() as AddressInfo
  const address = `127.0.0.1:${port}`
  const cut = (): void => { for (const link of links) link.cut() }
  const refuse = async (): Promise<void> => {
    if (!server.listening) return
    // The callback would wait for the connections that stand; listening ends at once.
    server.close()
  }
  t.teardown(async () => { await refuse(); cut() })

  return {
    port,
    address,
    url: `${targetUrl.protocol}//${address}`,
    get connections () { return links.size },
    set,
    pass: () => { set('toTarget', 'pass'); set('toClient', 'pass') },
    freeze: () => { set('toTarget', 'freeze'); set('toClient', 'freeze') },
    dropReplies: () => { set('toClient', 'drop') },
    cut,
    refuse,
    accept: () => accept(port),
    nextBytes: async direction => { await once(seen, direction) }
  }
}

interface Link {
  readonly cut: () => void
  readonly apply: (direction: Direction) => void
}

function steer (from: Socket, flow: Flow): void {
  if (flow === 'freeze') from.pause()
  else from.resume()
}
