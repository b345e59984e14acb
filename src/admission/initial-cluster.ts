/**
 * The `--initial-cluster` that a joiner must start with. etcd compares its number and peer URLs with the membership at
 * that moment, and reads it as a map by name: two equal names would become one, and "member count is unequal" (etcd 3.4 to 3.7).
 */
import { hexId } from './types.ts'
import type { Member, MemberId } from './types.ts'

/**
 * One `name=url` a member, names unique: the hexadecimal ID stands in for a member that has no name yet, or whose name
 * is taken. The joiner's own entry is exactly as it sent it.
 */
export function initialCluster (members: readonly Member[], own: MemberId, node: string, peerAddress: string): string[] {
  const used = new Set([node])
  return members.map(member => {
    if (member.id === own) return `${node}=${peerAddress}`
    const name = member.name === '' || used.has(member.name) ? hexId(member.id) : member.name
    used.add(name)
    return member.peerUrls.map(url => `${name}=${url}`).join(',')
  })
}
