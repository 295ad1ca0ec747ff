require "json"
puts "#{6 * 7} 北京 #{JSON.generate([3, 1])}"
