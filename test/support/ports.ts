/**
 * Free ports on loopback for processes that must be told their port before they start (etcd needs to know its peer
 * URL). Two dangers: an outgoing connection takes the port in the meantime, so ports come from below the range that
 * the kernel gives to those; and another test file asks at the same time, so the search starts anywhere.
 */
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

const LOWEST = 12_000
const BEYOND = 32_000
const handedOut = new Set<number>()

/** A port that nobody listens on at the moment, never the same twice in one process. */
export async function freePort (): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = randomInt(LOWEST, BEYOND)
    if (handedOut.has(port) || !await canListen(port)) continue
    handedOut.add(port)
    return port
  }
  throw new Error('found no free port on 127.0.0.1')
}

/** `http://127.0.0.1:<free port>` */
export async function freeUrl (scheme: 'http' | 'https' = 'http'): Promise<string> {
  return `${scheme}://127.0.0.1:${await freePort()}`
}

function canListen (port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer()
    server.once('error', () => { resolve(false) })
    server.listen(port, '127.0.0.1', () => { server.close(() => { resolve(true) }) })
  })
}
