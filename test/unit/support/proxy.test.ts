import t from 'tap'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import type { Teardown } from '../../support/etcd.ts'
import { startProxy } from '../../support/proxy.ts'
import type { Proxy } from '../../support/proxy.ts'

/** A target that answers every chunk with the same in capitals, and tells what it got. */
async function startShouter (t: Teardown): Promise<{ proxy: Proxy, heard: string[], dial: () => Promise<Socket> }> {
  const heard: string[] = []
  const server = createServer(socket => {
    socket.on('error', () => {})
    socket.on('data', chunk => { heard.push(chunk.toString()); socket.write(chunk.toString().toUpperCase()) })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => { server.close() })
  const proxy = await startProxy(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const dial = async (): Promise<Socket> => {
    const socket = connect(proxy.port, '127.0.0.1').setEncoding('utf8')
    t.teardown(() => { socket.destroy() })
    await once(socket, 'connect')
    return socket
  }
  return { proxy, heard, dial }
}

async function reply (socket: Socket): Promise<string> {
  const [chunk] = await once(socket, 'data') as [string]
  return chunk
}

t.test('bytes pass both ways, and the URL is the target\'s with another address', async t => {
  const { proxy, dial } = await startShouter(t)
  t.equal(proxy.url, `http://127.0.0.1:${proxy.port}`)
  const socket = await dial()
  socket.write('ahoy')
  t.equal(await reply(socket), 'AHOY')
  t.equal(proxy.connections, 1)
})

t.test('a frozen reply comes after the thaw', async t => {
  const { proxy, heard, dial } = await startShouter(t)
  const socket = await dial()
  proxy.set('toClient', 'freeze')
  let early = false
  socket.once('data', () => { early = true })
  const passed = proxy.nextBytes('toTarget')
  socket.write('ahoy')
  await passed
  const probe = await dial() // A later connection is frozen too, and proves that the target has had time to answer.
  probe.write('second')
  await proxy.nextBytes('toTarget')
  t.notOk(early)
  const late = reply(socket)
  proxy.pass()
  t.equal(await late, 'AHOY')
  t.equal(heard[0], 'ahoy')
})

t.test('a frozen request does not reach the target before the thaw', async t => {
  const { proxy, heard, dial } = await startShouter(t)
  const socket = await dial()
  proxy.freeze()
  socket.write('ahoy')
  proxy.set('toClient', 'pass')
  t.same(heard, [])
  proxy.pass()
  t.equal(await reply(socket), 'AHOY')
})

t.test('dropped replies never come, though the request was carried out', async t => {
  const { proxy, heard, dial } = await startShouter(t)
  const socket = await dial()
  proxy.dropReplies()
  const answered = proxy.nextBytes('toClient')
  socket.write('lost')
  await answered
  t.same(heard, ['lost'])
  proxy.pass()
  socket.write('found')
  t.equal(await reply(socket), 'FOUND')
})

t.test('cut resets what stands, and new connections are still taken', async t => {
  const { proxy, dial } = await startShouter(t)
  const socket = await dial()
  socket.write('ahoy')
  await reply(socket)
  socket.on('error', () => {})
  const broken = new Promise(resolve => { socket.once('close', resolve) })
  proxy.cut()
  await broken
  t.equal(proxy.connections, 0)
  const again = await dial()
  again.write('again')
  t.equal(await reply(again), 'AGAIN')
})

t.test('refused connections fail at once until they are accepted again', async t => {
  const { proxy, dial } = await startShouter(t)
  await proxy.refuse()
  await t.rejects(dial(), { code: 'ECONNREFUSED' })
  await proxy.accept()
  const socket = await dial()
  socket.write('ahoy')
  t.equal(await reply(socket), 'AHOY')
})
