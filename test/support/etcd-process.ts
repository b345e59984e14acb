/** One etcd process: its output, its end, and the signals that tests send it. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { EventEmitter, once } from 'node:events'

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface EtcdProcess {
  readonly pid: number
  readonly running: boolean
  readonly exited: Promise<Exit>
  ready: () => Promise<void>
  /** Sends the signal, frozen or not, and waits for the end. Does nothing when it is gone already. */
  end: (signal: 'SIGTERM' | 'SIGKILL') => Promise<Exit>
  signal: (signal: NodeJS.Signals) => void
  log: () => string
  logged: (pattern: RegExp) => Promise<string>
}

/** etcd ended before what was awaited came. */
export class EtcdExited extends Error {
  readonly log: string

  constructor (exit: Exit, log: string) {
    super(`etcd ended (${exit.signal ?? `code ${exit.code ?? '?'}`}); its last words:\n${log.split('\n').slice(-15).join('\n')}`)
    this.name = 'EtcdExited'
    this.log = log
  }
}

/** All versions from 3.4 to 3.7 say this, as plain text or as JSON, once clients are served. */
const SERVES_CLIENTS = /ready to serve client requests/

/** Starts etcd. Where setpriv exists the kernel kills it when this process dies, so that no crash leaves one behind. */
export function spawnEtcd (binary: string, args: readonly string[]): EtcdProcess {
  const guard = SETPRIV === undefined ? [] : [SETPRIV, '--pdeathsig', 'KILL', '--']
  const [file = binary, ...rest] = [...guard, binary, ...args]
  // Every ETCD_* variable of the environment would be a flag.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('ETCD_') || name === 'ETCD_UNSUPPORTED_ARCH'))
  const child = spawn(file, rest, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const { pid } = child
  if (pid === undefined) throw new Error(`cannot start ${file}`)

  const lines = new EventEmitter<{ line: [string], end: [] }>()
  lines.setMaxListeners(0)
  const chunks: string[] = []
  let unfinished = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      chunks.push(chunk)
      const parts = (unfinished + chunk).split('\n')
      unfinished = parts.pop() ?? ''
      for (const line of parts) lines.emit('line', line)
    })
  }

  let running = true
  // 'close' and not 'exit': only then has all of its output been read.
  const exited = once(child, 'close').then(([code, signal]): Exit => {
    running = false
    lines.emit('end')
    return { code: code as Exit['code'], signal: signal as Exit['signal'] }
  })

  const log = (): string => chunks.join('')
  const logged = (pattern: RegExp): Promise<string> => new Promise((resolve, reject) => {
    const written = log().split('\n').find(line => pattern.test(line))
    if (written !== undefined) { resolve(written); return }
    const settle = (): void => { lines.off('line', look); lines.off('end', gone) }
    const look = (line: string): void => { if (pattern.test(line)) { settle(); resolve(line) } }
    const gone = (): void => { settle(); void exited.then(exit => { reject(new EtcdExited(exit, log())) }) }
    if (!running) { gone(); return }
    lines.on('line', look)
    lines.on('end', gone)
  })

  return {
    pid,
    get running () { return running },
    exited,
    ready: async () => { await logged(SERVES_CLIENTS) },
    end: async signal => {
      if (running) {
        child.kill(signal)
        child.kill('SIGCONT') // A frozen process hears no SIGTERM before it goes on.
      }
      return await exited
    },
    signal: signal => { child.kill(signal) },
    log,
    logged
  }
}

const SETPRIV = ['/usr/bin/setpriv', '/bin/setpriv'].find(path => existsSync(path))
