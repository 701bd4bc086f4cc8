# Work of plain Elixir that goes on until it is killed.
defmodule Busy do
  def run do
    IO.puts("@ready")
    loop(%{}, 0)
  end

  defp loop(map, n) do
    words = for i <- 1..200, do: Integer.to_string(:erlang.phash2({n, i}))
    text = words |> Enum.sort() |> Enum.join(" ")
    longest = text |> String.split(" ") |> Enum.max_by(&String.length/1)
    loop(Map.put(map, rem(n, 100), longest), n + 1)
  end
end

Busy.run()
