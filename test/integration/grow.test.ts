import t from 'tap'
import { setTimeout as pause } from 'node:timers/promises'
import { bareEtcd } from '../support/bare-etcd.ts'
import { startCluster, startMember } from '../support/etcd.ts'
import { freeUrl } from '../support/ports.ts'
import { startReplica } from '../support/replica.ts'

t.test('four joiners at once grow one voter to five, one at a time, and no read or write fails', async t => {
  const cluster = await startCluster(t)
  const replica = startReplica(t, cluster.endpoints)
  const watcher = bareEtcd(t, cluster.first.clientUrl)
  const prober = bareEtcd(t, cluster.first.clientUrl)

  let growing = true
  let mostPending = 0
  let looks = 0
  const watching = (async () => {
    while (growing) {
      const members = await watcher.list(true)
      mostPending = Math.max(mostPending, members.filter(member => member.isLearner || member.name === '').length)
      looks++
      await pause(50)
    }
  })()
  const failures: unknown[] = []
  let probes = 0
  const probing = (async () => {
    while (growing) {
      try {
        await prober.client.put('probe').value(String(probes))
        await prober.client.get('probe').string()
        probes++
      } catch (error) { failures.push(error) }
      await pause(50)
    }
  })()

  await Promise.all([2, 3, 4, 5].map(async n => {
    const name = `m${n}`
    const peerUrl = await freeUrl('http')
    const answer = await replica.askUntilAnswered(name, peerUrl)
    if (answer.kind !== 'member') { t.fail(`${name}: ${JSON.stringify(answer)}`); return }
    t.equal(answer.role, 'learner')
    t.ok(answer.initialCluster.includes(`${name}=${peerUrl}`), 'its own entry is in the list')
    const member = await startMember(t, { name, peerUrl, initialCluster: answer.initialCluster, state: 'existing' })
    await member.ready()
  }))
  while ((await watcher.list(true)).some(member => member.isLearner)) await pause(50)
  growing = false
  await Promise.all([watching, probing])

  const members = await watcher.list(true)
  t.equal(members.length, 5)
  t.ok(members.every(member => !member.isLearner && member.name !== ''), 'all are started voters')
  t.equal(mostPending, 1, `never two pending in ${looks} looks`)
  t.same(failures, [], `${probes} reads and writes`)
  t.comment(`${looks} looks, ${probes} probes`)
})
