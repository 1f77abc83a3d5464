"""What must happen in Redis in one step, as Lua: Redis runs a script alone, and logs it as one transaction.

KEYS[1] is always `headwater_views`, the hash in which the views keep their books:

    VIEW/current         the version that readers see
    VIEW/1/place         what its keys begin with
    VIEW/1/shape         form and columns, as JSON
    VIEW/1/epoch         of the writer
    VIEW/1/batch, VIEW/1/position
    place/NAME           which view has this name
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headwater.client.position import Position
from headwater.views.targets.contract import Applied, Shape

if TYPE_CHECKING:
    import redis

BOOK = "headwater_views"

CREATE = """
local view, version, name, place, shape = unpack(ARGV)
local id = view .. '/' .. version
local owner = redis.call('HGET', KEYS[1], 'place/' .. name)
if owner and owner ~= view then return {'taken', owner} end
local known = redis.call('HGET', KEYS[1], id .. '/shape')
if known then return {known == shape and 'same' or 'other', known} end
if not owner and redis.call('EXISTS', name .. ':current') == 1 then
    return {'foreign', name .. ':current'}
end
redis.call('HSET', KEYS[1], 'place/' .. name, view, id .. '/place', place, id .. '/shape', shape,
    id .. '/epoch', '0')
if not redis.call('HGET', KEYS[1], view .. '/current') then
    redis.call('HSET', KEYS[1], view .. '/current', version)
    redis.call('SET', name .. ':current', place)
end
return {'made', shape}
"""

CLAIM = """
if not redis.call('HGET', KEYS[1], ARGV[1] .. '/place') then return false end
return redis.call('HINCRBY', KEYS[1], ARGV[1] .. '/epoch', 1)
"""

SWITCH = """
local view, version, name = unpack(ARGV)
local place = redis.call('HGET', KEYS[1], view .. '/' .. version .. '/place')
if not place then return false end
redis.call('HSET', KEYS[1], view .. '/current', version)
redis.call('SET', name .. ':current', place)
return place
"""

COMMIT = """
-- ARGV: what (commit, correct), id, epoch, batch, position, form, then name and length of each part.
-- KEYS: the book, who holds this version still, the staged lists of this version.
local what, id, epoch, batch, position, form = unpack(ARGV, 1, 6)
local place = redis.call('HGET', KEYS[1], id .. '/place')
if not place then return 'absent' end
local known_epoch = redis.call('HGET', KEYS[1], id .. '/epoch')
local known_batch = redis.call('HGET', KEYS[1], id .. '/batch')
if what == 'commit' then
    if tonumber(epoch) < tonumber(known_epoch) then return 'fenced' end
    if known_batch and tonumber(batch) <= tonumber(known_batch) then return 'known' end
elseif known_batch ~= batch or known_epoch ~= epoch
    or redis.call('HGET', KEYS[1], id .. '/position') ~= position then
    return 'moved'
end
local time = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', time[1] * 1000)
if redis.call('ZCARD', KEYS[2]) > 0 then return 'held' end

-- An error in the middle would leave half a batch: all that is needed must be there before.
local function chunks(part, count, each)
    for from = 0, count - 1, 1000 do
        local entries = redis.call('LRANGE', part, from, from + 999)
        each(entries, from)
    end
end
for n = 7, #ARGV, 2 do
    if redis.call('LLEN', ARGV[n]) ~= tonumber(ARGV[n + 1]) then return 'gone' end
    if form == 'hash' or form == 'json' then
        local there = true
        chunks(ARGV[n], tonumber(ARGV[n + 1]), function(entries, from)
            local rows = {}
            for i, entry in ipairs(entries) do
                if string.sub(entry, 1, 1) == '+' then
                    rows[#rows + 1] = ARGV[n] .. ':' .. (from + i - 1)
                end
            end
            if #rows > 0 and redis.call('EXISTS', unpack(rows)) ~= #rows then there = false end
        end)
        if not there then return 'gone' end
    end
end

local function keyed(part)
    return function(entries, from)
        for i, entry in ipairs(entries) do
            local key = place .. string.sub(entry, 2)
            if string.sub(entry, 1, 1) == '+' then
                redis.call('RENAME', part .. ':' .. (from + i - 1), key)
            else
                redis.call('UNLINK', key)
            end
        end
    end
end
local function timeline(part)
    return function(entries)
        for _, entry in ipairs(entries) do
            local row = cjson.decode(entry)
            if row[3] then
                redis.call('ZADD', place .. row[1], row[3], row[2])
            else
                redis.call('ZREM', place .. row[1], row[2])
            end
        end
    end
end
local function stream(part)
    return function(entries)
        for _, entry in ipairs(entries) do
            redis.call('XADD', place, '*', unpack(cjson.decode(entry)))
        end
    end
end
local forms = {hash = keyed, json = keyed, timeline = timeline, stream = stream}
for n = 7, #ARGV, 2 do
    chunks(ARGV[n], tonumber(ARGV[n + 1]), forms[form](ARGV[n]))
    redis.call('UNLINK', ARGV[n])
    redis.call('SREM', KEYS[3], ARGV[n])
end
if what == 'commit' then
    redis.call('HSET', KEYS[1], id .. '/epoch', epoch, id .. '/batch', batch,
        id .. '/position', position)
end
return 'done'
"""


def columns(shape: Shape) -> dict[str, str]:
    return {field.name: str(field.type) for field in shape.schema}


def widen(client: redis.Redis, id: str, columns: Mapping[str, str]) -> None:
    """Keys have the columns that they were written with; what is noted of a version gets the view's."""
    known = client.hget(BOOK, f"{id}/shape")
    said = None if known is None else json.loads(str(known))
    if said is not None and said["columns"].items() <= columns.items():
        client.hset(BOOK, f"{id}/shape", json.dumps({**said, "columns": columns}))


def applied(found: Sequence[str | None]) -> Applied | None:
    epoch, batch, position = found
    if epoch is None or batch is None or position is None:
        return None
    return Applied(int(batch), int(epoch), Position.from_json(position))
