#!/usr/bin/env ruby
# frozen_string_literal: true

wanted = Integer(ARGV.fetch(0))
lines = $stdin.readlines(chomp: true)
served = Integer(lines.first[/serves (\d+)/, 1])
ratio = Rational(wanted, served)

def shown(number)
  whole, rest = number.divmod(1)
  return whole.to_s if rest.zero?

  whole.zero? ? rest.to_s : "#{whole} #{rest}"
end

puts lines.shift.sub(/\d+/, wanted.to_s)
lines.each do |line|
  puts(line.sub(%r{^(\d+(?:/\d+)?)(?= )}) { |amount| shown(Rational(amount) * ratio) })
end
