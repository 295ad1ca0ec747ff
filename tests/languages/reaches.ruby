require 'net/http'
puts Net::HTTP.get(URI('http://plain.test/'))
begin
  Net::HTTP.get(URI('http://evil.test/'))
rescue SocketError
  puts 'not evil'
end
